"""What a roll-up is: sums of settled rows that are kept by hour and by day.

To add one, write a class with these members and name it in `gateway.rollup_job`; that is all. Each has a watermark
of its own, by its name, so a roll-up that is new begins with the oldest row that is kept.

    hour = rollup.hour(at)                 for each hour that is final, once, in order
    hour.add_row(row) …                    each settled row and each adjustment of the hour, by the names of `columns`
    hour.rows()                            the sums, written some hundred rows a transaction; then the watermark moves
    rollup.day(session, at)                when the day's hours are all written: its sums, from these

What is written must be a function of the rows alone (sort what has no order, take no ids from a sequence, no clock):
an hour that was begun twice is then written twice alike, and a rebuilt one is the same to the byte. A reader takes
what lies before the watermark and counts the rows behind it itself (`rows.slices`, `Hour.add_row`).
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Table

from storage.database import Session

Written = tuple[Table, Sequence[Mapping[str, Any]]]
"""Rows of one table. Where its key is there: replaced if the table has a column `at`, left alone if it has none."""


class Hour(Protocol):
    """The sums of one hour, while it is read."""

    def add_row(self, row: Any) -> None: ...

    def rows(self) -> Iterator[Written]:
        """Some fifty at a time, or none: others run in between, and not meanwhile."""
        ...


class RollUp(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> Sequence[ColumnElement[Any]]:
        """Of `ledger_entries`: what `add_row` reads. `rows.COLUMNS` are those of usage; more may be added."""
        ...

    @property
    def tables(self) -> tuple[Table, Table]:
        """Of hours and of days. The primary key of both begins with (scope, at), the scope as in `usage_series`."""
        ...

    def hour(self, at: datetime) -> Hour: ...

    def day(self, session: Session, at: datetime) -> AsyncIterator[Written]:
        """From its own hours in [at, at + 24 h); also called where there are none."""
        ...

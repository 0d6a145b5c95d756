"""The roll-up of usage: for each series the facts of an hour, and of a day."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import select

from storage.database import Session
from storage.models import usage_days, usage_hours, usage_series
from storage.rollups.facts import Facts
from storage.rollups.packed import pack_latencies, pack_proposers, unpack_latencies, unpack_proposers
from storage.rollups.rollup import Written
from storage.rollups.rows import COLUMNS
from storage.rollups.series import SUMMED_FROM, Dimensions, Level, at_level, series_row
from storage.rollups.watermark import DAY
from storage.values.usage import COUNTED, GROUPS

_dimensions = attrgetter(*GROUPS)
_counts = attrgetter(*COUNTED)
PIECE = 50
T = TypeVar("T")


class UsageRollUp:
    name = "usage"
    columns = COLUMNS
    tables = (usage_hours, usage_days)

    def hour(self, at: datetime) -> "UsageHour":
        return UsageHour(at)

    async def day(self, session: Session, at: datetime) -> AsyncIterator[Written]:
        """A scope at a time: what is in memory is one key's day."""
        for scope in await session.scalars(select(usage_series.c.scope).distinct().order_by(usage_series.c.scope)):
            if rows := await _day(session, scope, at):
                yield usage_days, rows


class UsageHour:
    def __init__(self, at: datetime) -> None:
        self._at = at
        self._by_key: dict[Dimensions, Facts] = {}

    def add_row(self, row: Any) -> None:
        dimensions = _dimensions(row)
        facts = self._by_key.get(dimensions)
        if facts is None:
            facts = self._by_key[dimensions] = Facts()
        facts.add_row(row)

    def rows(self) -> Iterator[Written]:
        levels: dict[Level | None, dict[Dimensions, Facts]] = {None: self._by_key}
        for level, below in SUMMED_FROM.items():
            found = levels[level] = {}
            for piece in _pieces(list(levels[below].items())):
                for dimensions, facts in piece:
                    found.setdefault(at_level(level, dimensions), Facts()).merge(facts)
                yield usage_hours, []
            for some in _pieces(sorted(found, key=_order)):
                series = [(series_row(level, dimensions), found[dimensions]) for dimensions in some]
                yield usage_series, [row for row, _ in series]
                yield usage_hours, [fact_row(row["scope"], self._at, row["id"], facts) for row, facts in series]


def fact_row(scope: int, at: datetime, series_id: int, facts: Facts) -> dict[str, Any]:
    counts = dict(zip(COUNTED, facts.sums, strict=True))
    latencies, proposers = pack_latencies(facts.latencies), pack_proposers(facts.by_proposer)
    return {"scope": scope, "at": at, "series_id": series_id, **counts, "latencies": latencies, "proposers": proposers}


def facts_of(rows: Sequence[Any]) -> Facts:
    """Of rows of roll-ups, or of what a database added up of several; at least one."""
    facts = Facts()
    facts.sums = [int(sum(counts)) for counts in zip(*map(_counts, rows), strict=True)]
    facts.latencies = unpack_latencies(b"".join(row.latencies for row in rows))
    facts.by_proposer = unpack_proposers(b"".join(row.proposers for row in rows))
    return facts


async def _day(session: Session, scope: int, at: datetime) -> list[dict[str, Any]]:
    h = usage_hours.c
    statement = select(usage_hours).where(h.scope == scope, h.at >= at, h.at < at + DAY).order_by(h.at, h.series_id)
    found: dict[int, list[Any]] = {}
    for row in await session.execute(statement):
        found.setdefault(row.series_id, []).append(row)
    rows = []
    for series_id in sorted(found):
        rows.append(fact_row(scope, at, series_id, facts_of(found[series_id])))
        await asyncio.sleep(0)
    return rows


def _pieces(everything: Sequence[T]) -> Iterator[Sequence[T]]:
    return (everything[start : start + PIECE] for start in range(0, len(everything), PIECE))


def _order(dimensions: Dimensions) -> list[Any]:
    return [(value is not None, value) for value in dimensions]

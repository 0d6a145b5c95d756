"""Whether the roll-ups of usage are the sums of what they were made from, as queries of their own.

    settled rows that are kept, by hour  =  the fleet's hours  =  those of projects  =  those of keys      and so by day

The sums over rows are written here again in SQL on purpose: a fault in the code that counts is found by code that
does not share it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, Table, case, func, select
from sqlalchemy import type_coerce as coerce

from storage.database import Session
from storage.models import EPOCH, MICROSECOND, ledger_entries, of_kind, usage_days, usage_hours, usage_series
from storage.rollups.kept import kept_from
from storage.rollups.series import LEFT_OUT
from storage.rollups.watermark import DAY, HOUR, Watermark, Watermarks, ceil
from storage.values import Problem
from storage.values.usage import MEASURED, SUMMED

CHECKED = ("requests", "adjust_micros", *SUMMED, "measured_requests", "decode_tokens", *MEASURED)
Sums = dict[int, tuple[int, ...]]
"""By microseconds of an hour's or a day's start; those of nothing are left out."""
_e = ledger_entries.c


async def find_mismatches(session: Session) -> list[Problem]:
    """Empty where nothing was rolled up yet."""
    mark = await Watermarks(session).of("usage")
    if mark is None:
        return []
    return [*await _by_rows(session, mark), *await _by_level(session, mark)]


async def _by_rows(session: Session, mark: Watermark) -> list[Problem]:
    start = ceil(await kept_from(session) or EPOCH, HOUR)
    rows = await _sums(session, _of_rows(start, mark.hours))
    hours = await _sums(session, _of_level(usage_hours, "fleet", HOUR, start, mark.hours))
    return list(_differing("the sums of an hour are those of its settled rows", rows, hours))


async def _by_level(session: Session, mark: Watermark) -> list[Problem]:
    problems: list[Problem] = []
    for through, width, tables in ((mark.hours, HOUR, (usage_hours,)), (mark.days, DAY, (usage_hours, usage_days))):
        fleet = await _sums(session, _of_level(usage_hours, "fleet", width, EPOCH, through))
        for table in tables:
            for level in LEFT_OUT:
                found = await _sums(session, _of_level(table, level, width, EPOCH, through))
                problems += _differing(f"{table.name} by {level} add up to the hours of the fleet", fleet, found)
    return problems


async def _sums(session: Session, statement: Select[Any]) -> Sums:
    found = {int(at): tuple(map(int, sums)) for at, *sums in await session.execute(statement)}
    return {at: sums for at, sums in found.items() if any(sums)}


def _differing(rule: str, wanted: Sums, found: Sums) -> Iterator[Problem]:
    """Each names the time, in the place of a request."""
    for at in sorted(wanted.keys() | found.keys()):
        if wanted.get(at) != found.get(at):
            yield Problem(rule, (EPOCH + at * MICROSECOND).strftime("%Y-%m-%dT%H:%MZ"))


def _of_rows(start: datetime, end: datetime) -> Select[Any]:
    is_settled = of_kind(ledger_entries, "settle")
    figures: dict[str, ColumnElement[int]] = {
        "requests": _of(is_settled, 1),
        "adjust_micros": _of(of_kind(ledger_entries, "adjust"), _e.micros),
        "measured_requests": _of(is_settled & _e.final, 1),
        "decode_tokens": _of(is_settled & _e.final, _e.generated_tokens - _e.choices_with_output),
        **{name: _of(is_settled, _e[name]) for name in SUMMED},
        **{name: _of(is_settled & _e.final, _e[name]) for name in MEASURED},
    }
    at = _floor(ledger_entries, HOUR)
    counted = is_settled | of_kind(ledger_entries, "adjust")
    columns: list[ColumnElement[Any]] = [at, *(figures[name] for name in CHECKED)]
    return select(*columns).where(counted, _e.at >= start, _e.at < end).group_by(at)


def _of_level(table: Table, level: str, width: timedelta, start: datetime, end: datetime) -> Select[Any]:
    at = _floor(table, width)
    columns: list[ColumnElement[Any]] = [at, *(func.sum(table.c[name]) for name in CHECKED)]
    return (
        select(*columns)
        .join_from(table, usage_series, usage_series.c.id == table.c.series_id)
        .where(usage_series.c.level == level, table.c.at >= start, table.c.at < end)
        .group_by(at)
    )


def _of(counted: ColumnElement[bool], figure: Any) -> ColumnElement[int]:
    return func.sum(case((counted, figure), else_=0))


def _floor(table: Table, width: timedelta) -> ColumnElement[int]:
    at = coerce(table.c.at, BigInteger)
    return at - at % (width // MICROSECOND)

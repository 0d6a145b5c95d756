"""The sums a report asks for: of each part of its range from where it is told in the fewest rows.

    rows │ hours │ days … days │ hours │ rows
         └ up to the next whole hour and day        └ after the watermark, and the last part of an hour

Within a part the database adds up, by the primary key of hours and days; the parts are added here.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, LargeBinary, Row, Select, Table, cast, func, literal, select, text
from sqlalchemy import type_coerce as coerce

from storage.database import Session
from storage.models import EPOCH, MICROSECOND, usage_days, usage_hours, usage_series
from storage.rollups.facts import Facts
from storage.rollups.rows import matching, slices
from storage.rollups.series import OWNED_BY, Level, level_for
from storage.rollups.usage_rollup import UsageRollUp, facts_of
from storage.rollups.watermark import DAY, HOUR, Watermark, Watermarks, ceil, floor
from storage.values.usage import COUNTED, UsageQuery

Key = tuple[Any, ...]
"""Microseconds of the bucket's start, then the values of the groups."""
Part = tuple[Table | None, datetime, datetime]
"""Where [start, end) is read from; None: from rows."""
_s = usage_series.c
Scopes = Sequence[int] | Select[tuple[int]]
FEW = 100
AT_ONCE = 5
"""Groups that are unpacked while everybody else waits."""


async def usage_facts(session: Session, query: UsageQuery) -> dict[Key, Facts]:
    if session.dialect.name == "postgresql":
        # Rows with their histograms are wide: else it sorts them on disk.
        await session.execute(text("SET LOCAL work_mem = '64MB'"))
    mark = await Watermarks(session).of(UsageRollUp.name)
    found: dict[Key, Facts] = {}
    sums: dict[Key, list[Any]] = {}
    for table, start, end in parts(query, mark):
        if table is None:
            await _count_rows(session, query, start, end, found)
            continue
        for row in await _sums(session, query, table, start, end):
            sums.setdefault((row.bucket, *(row._mapping[name] for name in query.group_by)), []).append(row)
    for number, (key, rows) in enumerate(sums.items()):
        found.setdefault(key, Facts()).merge(facts_of(rows))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def parts(query: UsageQuery, mark: Watermark | None) -> Iterator[Part]:
    """In the order of time, without gap or overlap."""
    start, end = query.start, query.end
    if mark is None or (query.width and query.width % HOUR):
        yield None, start, end
        return
    yield from _split(None, start, end, HOUR, mark.hours, lambda a, b: _by_day(query, mark, a, b))


def _by_day(query: UsageQuery, mark: Watermark, start: datetime, end: datetime) -> Iterator[Part]:
    if query.width and query.width % DAY:
        yield usage_hours, start, end
        return
    yield from _split(usage_hours, start, end, DAY, mark.days, lambda a, b: iter([(usage_days, a, b)]))


def _split(outer: Table | None, start: datetime, end: datetime, width: timedelta, through: datetime, inner: Any) -> Any:
    """`inner` for whole multiples of `width` up to `through`, `outer` for what is left on both sides."""
    first, last = ceil(start, width), min(floor(end, width), through)
    if first >= last:
        yield outer, start, end
        return
    if start < first:
        yield outer, start, first
    yield from inner(first, last)
    if last < end:
        yield outer, last, end


async def _count_rows(
    session: Session, query: UsageQuery, start: datetime, end: datetime, found: dict[Key, Facts]
) -> None:
    async for rows in slices(session, start, end, query.filters):
        for row in rows:
            key = (bucket_of(query, row.at), *(getattr(row, name) for name in query.group_by))
            found.setdefault(key, Facts()).add_row(row)


def bucket_of(query: UsageQuery, at: int) -> int:
    """The microseconds of the bucket's start, of those of a moment."""
    return at - at % (query.width // MICROSECOND) if query.width else (query.start - EPOCH) // MICROSECOND


async def _sums(
    session: Session, query: UsageQuery, table: Table, start: datetime, end: datetime
) -> Sequence[Row[Any]]:
    """One a bucket and group, or some."""
    scopes = await _scopes(session, query)
    found = await session.execute(_statement(query, table, start, end, scopes, session.dialect.name))
    return list(found)


async def _scopes(session: Session, query: UsageQuery) -> Scopes:
    """By name where they are few: a planner knows little of a query within a query."""
    asked = select(_s.scope).where(*_series(query)).distinct()
    found = list(await session.scalars(asked.limit(FEW + 1)))
    return found if len(found) <= FEW else asked


def _statement(
    query: UsageQuery, table: Table, start: datetime, end: datetime, scopes: Scopes, dialect: str
) -> Select[Any]:
    """Where groups are owners of scopes, it adds up in the order of the key and sorts nothing."""
    t, bucket = table.c, bucket_column(query, table)
    groups: list[ColumnElement[Any]] = [_s[name] for name in query.group_by]
    by = [bucket, *groups] if query.width else groups
    if set(query.group_by) <= set(OWNED_BY[_level(query)]):
        by = [t.scope, bucket] if query.width else [t.scope]
        groups = [func.min(_s[name]).label(name) for name in query.group_by]
    return (
        select(
            bucket.label("bucket"),
            *groups,
            *(func.sum(t[name]).label(name) for name in COUNTED),
            _joined(t.latencies, dialect).label("latencies"),
            _joined(t.proposers, dialect).label("proposers"),
        )
        .join_from(table, usage_series, _s.id == t.series_id)
        .where(t.scope.in_(scopes), t.at >= start, t.at < end, *_series(query))
        .group_by(*by)
    )


def _series(query: UsageQuery) -> list[ColumnElement[bool]]:
    return [_s.level == _level(query), *(matching(_s[name], values) for name, values in query.filters.items())]


def _level(query: UsageQuery) -> Level:
    return level_for({*query.group_by, *query.filters})


def bucket_column(query: UsageQuery, table: Table) -> ColumnElement[int]:
    """The same, of a roll-up's rows."""
    at = coerce(table.c.at, BigInteger)
    return at - at % (query.width // MICROSECOND) if query.width else literal(bucket_of(query, 0), BigInteger)


def _joined(column: ColumnElement[bytes], dialect: str) -> ColumnElement[bytes]:
    """End to end, in any order."""
    if dialect == "postgresql":
        return func.string_agg(column, cast(b"", LargeBinary))
    return cast(func.group_concat(column, ""), LargeBinary)

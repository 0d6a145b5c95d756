"""Settled rows and adjustments of a range of time, in the order of an index, a slice at a time.

Slices are small, so that who folds them lets others run in between.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, and_, case, func, literal_column, null, or_, select
from sqlalchemy import type_coerce as coerce

from storage.database import Session
from storage.models import ledger_entries, of_kind
from storage.rollups.facts import TIMES
from storage.values.usage import GROUPS, MEASURED, SUMMED, Group, GroupValue

SLICE = 200
_e = ledger_entries.c
MICROS = coerce(_e.at, BigInteger)
_PROJECT = func.coalesce(_e.project_id, literal_column("'proj_'") + _e.tenant_id)
"""Entries of releases without projects count for the tenant's default one."""
_OF_OLD = and_(*(_e[name] == 0 for name in TIMES))
COLUMNS: tuple[ColumnElement[Any], ...] = (
    MICROS.label("at"),
    *(_e[name] for name in GROUPS if name != "project_id"),
    _PROJECT.label("project_id"),
    *(_e.kind, _e.outcome, _e.final, _e.choices_with_output, _e.micros),
    *(_e[name] for name in (*SUMMED, *MEASURED, *TIMES)),
    _e.by_proposer,
    case((_OF_OLD, _e.timings), else_=null()).label("timings"),
)
"""What `Facts` reads, and by what it is grouped."""


async def slices(
    session: Session,
    start: datetime,
    end: datetime,
    filters: Mapping[Group, Sequence[GroupValue]] | None = None,
    columns: Sequence[ColumnElement[Any]] = COLUMNS,
) -> AsyncIterator[Sequence[Row[Any]]]:
    """Every entry settled or written in [start, end) that matches."""
    for kind in ("settle", "adjust"):
        result = await session.stream(_of(kind, start, end, filters or {}, columns))
        async for rows in result.partitions(SLICE):
            yield rows
            await asyncio.sleep(0)


def _of(
    kind: str,
    start: datetime,
    end: datetime,
    filters: Mapping[Group, Sequence[GroupValue]],
    columns: Sequence[ColumnElement[Any]],
) -> Select[Any]:
    wanted = (matching(_PROJECT if name == "project_id" else _e[name], values) for name, values in filters.items())
    return select(*columns).where(of_kind(ledger_entries, kind), _e.at >= start, _e.at < end, *wanted)


def matching(column: ColumnElement[Any], values: Sequence[GroupValue]) -> ColumnElement[bool]:
    known = [value for value in values if value is not None]
    return column.in_(known) if len(known) == len(values) else or_(column.in_(known), column.is_(None))

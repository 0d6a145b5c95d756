"""Usage by time bucket and group. A request counts in the bucket of its settlement.

    async with db.view() as session:
        report = await Usage(session).report(UsageQuery(start, end, timedelta(days=1), ["model"]))

Every figure is the exact sum over settled rows, most of them added up beforehand (`storage.rollups`).
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from storage.database import Session
from storage.models import EPOCH, MICROSECOND
from storage.rollups.facts import Facts
from storage.rollups.read import AT_ONCE, Key, usage_facts
from storage.rollups.usage_rollup import UsageRollUp
from storage.rollups.watermark import Watermarks
from storage.values.usage import (
    GROUPS,
    LATENCIES,
    MEASURED,
    MINUTE_RANGE,
    OUTCOMES,
    SUMMED,
    TIMINGS,
    Group,
    GroupValue,
    Latency,
    UsageQuery,
    UsageReport,
    UsageRow,
    merged,
)

__all__ = [
    "GROUPS",
    "LATENCIES",
    "MEASURED",
    "MINUTE_RANGE",
    "OUTCOMES",
    "SUMMED",
    "TIMINGS",
    "Group",
    "GroupValue",
    "Latency",
    "Usage",
    "UsageQuery",
    "UsageReport",
    "UsageRow",
    "merged",
]


class Usage:
    """Reports on what was used, in one view."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def report(self, query: UsageQuery) -> UsageReport:
        return UsageReport(await self.rows(query), await self.rolled_up_through())

    async def rows(self, query: UsageQuery) -> list[UsageRow]:
        """By bucket, then by group; groups without a request or an adjustment are left out."""
        found = await usage_facts(self._session, query)
        rows = []
        for key in sorted(found, key=_order):
            rows.append(_row(query.group_by, key, found.pop(key)))
            if len(rows) % AT_ONCE == 0:
                await asyncio.sleep(0)
        return rows

    async def rolled_up_through(self) -> datetime | None:
        mark = await Watermarks(self._session).of(UsageRollUp.name)
        return None if mark is None else mark.hours


def _row(group_by: Sequence[Group], key: Key, facts: Facts) -> UsageRow:
    return facts.as_row(EPOCH + key[0] * MICROSECOND, dict(zip(group_by, key[1:], strict=True)))


def _order(key: Key) -> Key:
    return tuple((value is not None, value) for value in key)

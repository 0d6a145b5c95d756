"""What speculation saved, by bucket and group: from roll-ups, and from settled rows behind their watermark.

    async with db.view() as session:
        savings = await SavingsBook(session).savings(UsageQuery(start, end, timedelta(days=1), ["tenant_id"]))

Controls are those of the asked deployments in the whole range, of all tenants; a model also knows those of LOOKBACK
before its end.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, Table, func, select

from storage.database import Session
from storage.models import savings_days, savings_hours, usage_days, usage_hours, usage_series
from storage.rollups.read import Key, bucket_column, bucket_of, parts
from storage.rollups.rows import SLICE, matching, slices
from storage.rollups.series import Level, level_for
from storage.rollups.watermark import Watermarks
from storage.savings.cohorts import Cohorts, Saving, saving
from storage.savings.modelled import Halves
from storage.savings.observation import Observation, observe
from storage.savings.rollup import SavingsRollUp
from storage.savings.stratum import Stratum
from storage.savings.sums import NAMES, Sums
from storage.values.usage import UsageQuery

LOOKBACK = timedelta(days=30)
_s = usage_series.c
_GROUPS_FROM = 5
"""In a row of `_statement`, after what makes a stratum and the bucket."""
_TABLES = {usage_hours: savings_hours, usage_days: savings_days}


class SavingsBook:
    """In one view."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def savings(self, query: UsageQuery) -> dict[Key, Saving]:
        """By the microseconds of a bucket's start and the values of the groups, as usage is."""
        groups = await self.cohorts(query)
        controls, known = await self.controls(query), await self.controls(_longer(query))
        found: dict[Key, Saving] = {}
        for key, group in groups.items():
            found[key] = saving(group, controls, known)
            await asyncio.sleep(0)  # others run between two groups
        return found

    async def controls(self, query: UsageQuery) -> Halves:
        """Of the deployments and versions that a query asks for, in its whole range, of all tenants."""
        wide = UsageQuery(
            query.start,
            query.end,
            width=None,
            deployment_ids=query.deployment_ids,
            config_versions=query.config_versions,
            cohorts=["control"],
        )
        found = await self.cohorts(wide)
        return next(iter(found.values()), Cohorts()).halves

    async def cohorts(self, query: UsageQuery) -> dict[Key, Cohorts]:
        """The sums themselves."""
        mark = await Watermarks(self._session).of(SavingsRollUp.name)
        found: dict[Key, Cohorts] = defaultdict(Cohorts)
        for table, start, end in parts(query, mark):
            sums = self._counted(query, start, end) if table is None else self._kept(query, _TABLES[table], start, end)
            async for key, seen in sums:
                found[key].add(seen)
        return dict(found)

    async def _counted(
        self, query: UsageQuery, start: datetime, end: datetime
    ) -> AsyncIterator[tuple[Key, Observation]]:
        async for rows in slices(self._session, start, end, query.filters, SavingsRollUp.columns):
            for row in rows:
                seen = observe(row)
                if seen is not None:
                    yield (bucket_of(query, row.at), *(getattr(row, name) for name in query.group_by)), seen

    async def _kept(
        self, query: UsageQuery, table: Table, start: datetime, end: datetime
    ) -> AsyncIterator[tuple[Key, Observation]]:
        result = await self._session.stream(_statement(query, table, start, end))
        async for rows in result.partitions(SLICE):
            for row in rows:
                yield (int(row.bucket), *row[_GROUPS_FROM : -len(NAMES)]), _observed(row)


def _observed(row: Row[Any]) -> Observation:
    cell, half = divmod(row.stratum, 2)
    where = Stratum(row.deployment_of, row.version_of, cell)
    return Observation(where, row.cohort_of or "undrawn", half, Sums(*map(int, row[-len(NAMES) :])))


def _longer(query: UsageQuery) -> UsageQuery:
    return replace(query, start=min(query.start, query.end - LOOKBACK), width=None)


def _statement(query: UsageQuery, table: Table, start: datetime, end: datetime) -> Select[Any]:
    level: Level = "fleet" if level_for({*query.group_by, *query.filters}) == "fleet" else "key"
    scope = [_s.level == level, *(matching(_s[name], values) for name, values in query.filters.items())]
    t = table.c
    bucket = bucket_column(query, table).label("bucket")
    key = [
        *(_s.deployment_id.label("deployment_of"), _s.config_version.label("version_of")),
        *(_s.cohort.label("cohort_of"), t.stratum, bucket),
        *(_s[name].label(name) for name in query.group_by),
    ]
    return (
        select(*key, *(func.sum(t[name]).label(name) for name in NAMES))
        .join_from(table, usage_series, _s.id == t.series_id)
        .where(t.scope.in_(select(_s.scope).where(*scope)), t.at >= start, t.at < end, *scope)
        .group_by(*key)
    )

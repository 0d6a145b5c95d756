"""No report reads through history: rows by an index, and sums by the key that keeps a tenant's together."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from storage import Database
from storage.rollups.usage_rollup import UsageRollUp
from storage.usage import UsageQuery
from tests.storage.plans import plans_of
from tests.storage.settled import random_rows, write
from tests.storage.test_rollups import roller

pytestmark = pytest.mark.anyio
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
END = datetime(2026, 3, 9, 12, tzinfo=UTC)
NOW = END + timedelta(minutes=30)
WEEK = NOW - 7 * DAY
QUERIES = {
    "a tenant's days": UsageQuery(WEEK, NOW, DAY, ("deployment_id", "cohort"), ["a"]),
    "a key's hours": UsageQuery(WEEK, NOW, HOUR, (), ["a"], key_ids=["a-1"]),
    "a project, whatever its tenant": UsageQuery(WEEK, NOW, None, ("workload",), project_ids=["proj_b1"]),
    "the fleet": UsageQuery(WEEK, NOW, DAY, ("deployment_id",)),
    "all tenants": UsageQuery(WEEK, NOW, DAY, ("tenant_id",)),
    "minutes": UsageQuery(NOW - HOUR, NOW, timedelta(minutes=1), (), ["a"]),
}


async def test_every_report_goes_through_its_index(db: Database) -> None:
    await write(db, random_rows(1, 200, WEEK, 7 * DAY))
    await roller(db, NOW).run()
    async with db.unit() as session:
        await session.execute(text("ANALYZE"))
    async with db.view() as session:
        if session.dialect.name == "postgresql":
            # With some hundred rows the planner would rather read them all.
            await session.execute(text("SET LOCAL enable_seqscan = off"))
        plans = {name: await plans_of(session, query) for name, query in QUERIES.items()}
    for name, found in plans.items():
        for plan in found:
            assert "ledger_entries" in plan or "usage_" in plan
            for table, index in (("ledger_entries", "ix_ledger_entries_"), *_keys(UsageRollUp())):
                if f" {table}" in plan:
                    assert f"{index}" in plan or f"SEARCH {table} USING PRIMARY KEY (scope=? AND at>" in plan, (
                        name,
                        plan,
                    )
    assert {len(found) for name, found in plans.items() if name != "minutes"} <= set(range(4, 9))


def _keys(rollup: UsageRollUp) -> list[tuple[str, str]]:
    return [(table.name, f"pk_{table.name}") for table in rollup.tables]

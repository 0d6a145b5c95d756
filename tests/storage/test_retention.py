"""What is forgotten was rolled up before, and neither totals, nor the ledger's rules, nor the audit chain notice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from gateway.rollup_job import every_rollup
from storage import Database
from storage.adjustments import Adjustments
from storage.audit import Audit
from storage.erasure import erase, erased_since
from storage.models import audit_events, ledger_entries
from storage.paging import Cursor
from storage.retention import erase_details, forget_usage, forget_users
from storage.rollups.roller import Roller
from storage.tenants import Tenants
from storage.usage import Usage, UsageQuery, UsageRow
from storage.values.audit import Actor, AuditQuery
from tests.storage.entries import ENDED, open_requests, problems, settle

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
KEY = b"k" * 32


async def fill(db: Database) -> None:
    """Two requests a day for ten days, one of them corrected now."""
    for day in range(10):
        for number in range(2):
            id, at = f"r{day}-{number}", NOW - (10 - day) * DAY
            await open_requests(db, id, at=at, user_hash="u" * 64)
            await settle(db, id, ENDED, at)
    async with db.unit() as session:
        assert await Adjustments(session).add("r1-0", -7, "a fault of ours", "k")


async def roll_up(db: Database) -> None:
    for rollup in every_rollup():
        roller = Roller(db, rollup, "home:1", clock=_clock)
        while await roller.run():
            pass


async def _clock(_: Any) -> float:
    return NOW.timestamp()


async def total(db: Database) -> list[UsageRow]:
    query = UsageQuery(NOW.replace(hour=0) - 30 * DAY, NOW.replace(hour=0), None, ["tenant_id"])
    async with db.view() as session:
        return await Usage(session).rows(query)


async def ids(db: Database) -> set[str]:
    async with db.view() as session:
        return set(await session.scalars(select(ledger_entries.c.request_id).distinct()))


async def test_nothing_is_forgotten_that_was_not_rolled_up(db: Database) -> None:
    await fill(db)
    assert await forget_usage(db, NOW) == 0
    assert len(await ids(db)) == 20


async def test_totals_outlive_the_rows_and_corrected_requests_stay(db: Database) -> None:
    await fill(db)
    await roll_up(db)
    before = await total(db)
    assert before[0].requests == 20
    took = []
    while number := await forget_usage(db, NOW - 4 * DAY, batch=4):
        took.append(number)
    assert took == [4, 4, 3], "days 0 to 5, but for the corrected one"
    assert await ids(db) == {"r1-0", *(f"r{day}-{number}" for day in range(6, 10) for number in range(2))}
    assert await total(db) == before
    assert await problems(db) == []
    await roll_up(db)
    assert await total(db) == before


async def test_old_audit_details_are_erased_and_the_chain_holds(db: Database) -> None:
    async with db.unit() as session:
        await Tenants(session).ensure("acme", "Acme")
        for tenant in ("acme", "default", "acme"):
            actor = Actor("api_key", "k")
            await Audit(session, KEY).record(actor, "project.updated", "p", {"a": 1}, {"a": 2}, tenant_id=tenant)
    later = datetime.now(UTC) + DAY
    assert await erase_details(db, datetime.now(UTC) - DAY) == 0
    assert [await erase_details(db, later, "acme", batch=1) for _ in range(3)] == [1, 1, 0]
    async with db.view() as session:
        events, _ = await Audit(session, KEY).page(AuditQuery(), Cursor(10))
        assert [event.is_erased for event in events] == [True, False, True]
        report = await Audit(session, KEY).verify()
        assert (report.problems, report.erased) == ((), 2)
        assert await session.scalar(select(func.count()).select_from(audit_events)) == 3


async def test_an_erased_tenant_leaves_a_tombstone(db: Database) -> None:
    await fill(db)
    await open_requests(db, "running", user_hash="u" * 64)
    async with db.unit() as session:
        tenant = await Tenants(session).get("default")
        assert tenant is not None
        erased = await erase(session, tenant)
    assert (erased.id, erased.name, erased.version) == ("default", "erased", tenant.version + 1)
    assert erased.erased_at is not None
    assert [await forget_users(db, "default", batch=15) for _ in range(3)] == [15, 5, 0]
    async with db.view() as session:
        left = await session.scalars(
            select(ledger_entries.c.request_id).where(ledger_entries.c.user_hash.is_not(None)).distinct()
        )
        assert set(left) == {"running"}, "it settles as it was opened"
        assert [one.id for one in await erased_since(session, NOW)] == ["default"]
    await settle(db, "running")
    assert await problems(db) == []
    assert await forget_users(db, "default") == 1
    assert await problems(db) == []

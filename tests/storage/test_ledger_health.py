"""How the ledger does: open requests of the last hour, by ranges of its indexes alone; how far roll-ups have come."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from storage import Database
from storage.ids import floor_of, uuid7
from storage.ledger import Ledger
from storage.ledger_health import LedgerHealth, ledger_health, unsettled_since
from storage.rollups.watermark import Watermarks
from storage.values import Settlement
from tests.storage.entries import ENDED, opening

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)
AGO = timedelta(hours=1)


def an_id(at: datetime) -> str:
    return floor_of(at)[:12] + uuid7()[12:]


def test_no_id_of_then_sorts_before_its_floor() -> None:
    before, after = floor_of(NOW - timedelta(milliseconds=1)), floor_of(NOW + timedelta(milliseconds=1))
    assert before < floor_of(NOW) <= an_id(NOW) < after


async def test_open_requests_are_counted_those_before_the_hour_are_not(db: Database) -> None:
    old, settled, *still = [an_id(NOW - AGO * share) for share in (1.1, 0.9, 0.5, 0.1)]
    async with db.unit() as session:
        for request_id in (old, settled, *still):
            await Ledger(session).open(opening(request_id))
        await Ledger(session).settle(Settlement(settled, "completed", ENDED))
        await Watermarks(session).begin("usage", datetime(2026, 3, 1, 4, 30, tzinfo=UTC))
    async with db.view() as session:
        found = await ledger_health(session, NOW - AGO)
    assert found == LedgerHealth(2, {"usage": datetime(2026, 3, 1, 4, tzinfo=UTC)})


async def test_only_the_end_of_two_indexes_is_read(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    statement = unsettled_since(NOW).compile(compile_kwargs={"literal_binds": True})
    async with db.view() as session:
        plan = [str(row[-1]) for row in await session.execute(text(f"EXPLAIN QUERY PLAN {statement}"))]
    await db.close()
    assert [step for step in plan if step.startswith(("SEARCH", "SCAN")) and "CONSTANT" not in step] == [
        "SEARCH open USING INDEX uq_ledger_entries_open (request_id>?)",
        "SEARCH settle USING INDEX uq_ledger_entries_settle (request_id>?)",
    ]

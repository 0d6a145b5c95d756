"""What a dead gateway left open is settled from its last checkpoint, once, by whoever comes first."""

import asyncio
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from storage import Database
from storage.ledger import Ledger
from storage.models import ledger_entries
from storage.values import Figures
from tests.storage.entries import open_requests, problems, settle

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
WRITER = """
import asyncio, sys
from storage import Database
from storage.ledger import Ledger
from tests.storage.entries import open_requests, settle

async def main(url):
    db = await Database.open(url)
    await open_requests(db, "settled", "checkpointed", "opened", owner="home:dead")
    await settle(db, "settled")
    async with db.unit() as session:
        await Ledger(session).checkpoint("checkpointed", 70, 64)
    async with db.unit() as session:
        await Ledger(session).checkpoint("checkpointed", 134, 128)
    async with db.unit() as session:
        await Ledger(session).checkpoint("opened", 999, 999)
        print("inside a unit", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(sys.argv[1]))
"""


async def _settled(db: Database) -> dict[str, tuple[str, int, int, int]]:
    c = ledger_entries.c
    async with db.view() as session:
        rows = await session.execute(select(ledger_entries).where(c.kind == "settle"))
        return {r.request_id: (r.outcome, r.generated_tokens, r.visible_tokens, r.completion_tokens) for r in rows}


async def _reconcile(db: Database, *owners: str) -> int:
    async with db.unit() as session:
        return await Ledger(session).reconcile(owners)


async def test_a_writer_killed_inside_a_unit_loses_only_that_unit(db: Database, url: str) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"inside a unit\n"
    finally:
        writer.kill()
        await writer.communicate()
    assert await _reconcile(db, "home:dead") == 2
    assert await _settled(db) == {
        "settled": ("completed", 20, 20, 20),
        "checkpointed": ("interrupted", 134, 128, 128),
        "opened": ("interrupted", 0, 0, 0),
    }
    assert await problems(db) == []
    assert await _reconcile(db, "home:dead") == 0


async def test_the_living_keep_their_requests(db: Database) -> None:
    await open_requests(db, "r1", owner="home:1")
    await open_requests(db, "r2", owner="home:2")
    assert await _reconcile(db, "home:1") == 1
    assert await settle(db, "r2")
    assert not await settle(db, "r1")


async def test_reconcilers_and_the_owner_settle_once_between_them(db: Database) -> None:
    ids = [f"r{number}" for number in range(10)]
    await open_requests(db, *ids)
    counts = await asyncio.gather(*(_reconcile(db, "home:1") for _ in range(4)), *(settle(db, id) for id in ids))
    assert sum(counts) == 10
    assert len(await _settled(db)) == 10
    assert await problems(db) == []


@pytest.mark.parametrize(("policy", "completion"), [("free", 10), ("billed", 16), ("capped", 13)])
async def test_an_interrupted_bill_follows_the_policy_it_was_opened_under(
    db: Database, policy: str, completion: int
) -> None:
    await open_requests(db, "r1", rejected_prediction=policy)
    seen = Figures(prompt_tokens=9, prediction_tokens=20, accepted_prediction_tokens=3, rejected_prediction_tokens=6)
    async with db.unit() as session:
        await Ledger(session).checkpoint("r1", 12, 10, seen)
    await _reconcile(db, "home:1")
    assert await _settled(db) == {"r1": ("interrupted", 12, 10, completion)}
    assert await problems(db) == []

"""A request is opened once and settled once, whoever tries and however often."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from storage import Database, UnknownRequest
from storage.ledger import Ledger
from storage.models import ledger_entries
from storage.values import Settlement
from tests.storage.entries import ENDED, open_requests, opening, problems, settle

pytestmark = pytest.mark.anyio


async def _entries(db: Database, request_id: str) -> list[dict[str, object]]:
    statement = select(ledger_entries).where(ledger_entries.c.request_id == request_id)
    async with db.view() as session:
        rows = await session.execute(statement.order_by(ledger_entries.c.entry_id))
        return [dict(row._mapping) for row in rows]


async def test_open_then_settle_keeps_every_figure(db: Database) -> None:
    at = datetime(2026, 7, 1, 12, 30, 15, 123456, UTC)
    await open_requests(db, "r1", workload="edit.v1", user_hash="ab12", rejected_prediction="free", choices=1)
    assert await settle(db, "r1", at=at)
    opened, settled = await _entries(db, "r1")
    assert (opened["kind"], settled["kind"], settled["outcome"], settled["at"]) == ("open", "settle", "completed", at)
    assert settled["entry_id"] > opened["entry_id"]  # type: ignore[operator]
    assert {k: settled[k] for k in ("tenant_id", "key_id", "model", "route", "owner", "workload", "user_hash")} == {
        "tenant_id": "default",
        "key_id": "abcdefghijkl",
        "model": "tiny",
        "route": "/v1/chat/completions",
        "owner": "home:1",
        "workload": "edit.v1",
        "user_hash": "ab12",
    }
    assert (settled["drafted_tokens"], settled["accepted_tokens"], settled["accepted_delivered"]) == (20, 12, 12)
    assert settled["by_proposer"] == {
        "prediction": {"drafts": 3, "drafted": 16, "accepted": 11, "accepted_by_position": [3, 2, 2, 2, 2]},
        "lookup": {"drafts": 2, "drafted": 4, "accepted": 1, "accepted_by_position": [1]},
    }
    assert settled["timings"] == {"queue": 0.25, "prefill": 0.5, "decode": 1.5}
    assert settled["config_versions"] == {"1": 7}
    assert await problems(db) == []


async def test_a_second_open_and_a_second_settle_change_nothing(db: Database) -> None:
    await open_requests(db, "r1")
    async with db.unit() as session:
        assert not await Ledger(session).open(opening("r1", model="other"))
    assert await settle(db, "r1")
    assert not await settle(db, "r1", replace(ENDED, prompt_tokens=7))
    assert [(e["kind"], e["model"], e["prompt_tokens"]) for e in await _entries(db, "r1")] == [
        ("open", "tiny", 0),
        ("settle", "tiny", 100),
    ]


async def test_fifty_settles_at_once_are_one(db: Database) -> None:
    await open_requests(db, "r1")
    won = await asyncio.gather(*(settle(db, "r1") for _ in range(50)))
    assert sum(won) == 1
    assert [e["kind"] for e in await _entries(db, "r1")] == ["open", "settle"]


async def test_a_lost_race_spoils_no_neighbour_in_its_unit(db: Database) -> None:
    await open_requests(db, "r1", "r2")
    assert await settle(db, "r1")
    async with db.unit() as session:
        ledger = Ledger(session)
        assert not await ledger.settle(Settlement("r1", "error", ENDED))
        assert await ledger.settle(Settlement("r2", "completed", ENDED))
    assert len(await _entries(db, "r2")) == 2


async def test_what_was_never_opened_cannot_be_settled(db: Database) -> None:
    with pytest.raises(UnknownRequest, match="r9"):
        await settle(db, "r9")
    async with db.unit() as session:
        with pytest.raises(UnknownRequest):
            await Ledger(session).checkpoint("r9", 1, 1)


async def test_unsettled_names_what_each_owner_left(db: Database) -> None:
    await open_requests(db, "r1", "r2", owner="home:1")
    await open_requests(db, "r3", owner="home:2")
    await settle(db, "r1")
    async with db.view() as session:
        ledger = Ledger(session)
        assert [entry.request_id for entry in await ledger.unsettled()] == ["r2", "r3"]
        assert [entry.owner for entry in await ledger.unsettled("home:2")] == ["home:2"]

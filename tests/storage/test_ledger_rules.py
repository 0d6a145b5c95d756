"""Every rule of the ledger finds the entry that breaks it, and only that one."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, insert, text, update

from storage import Database
from storage.entries import copied_from
from storage.ids import uuid7
from storage.models import ledger_entries
from storage.values import Problem, ProposerFigures
from tests.storage.entries import ENDED, open_requests, opening, problems, settle

pytestmark = pytest.mark.anyio
BREAKS: dict[str, dict[str, Any]] = {
    "cached tokens are part of the prompt": {"cached_tokens": 101},
    "delivered tokens were generated": {"delivered_tokens": 21},
    "visible tokens were generated": {"visible_tokens": 21, "completion_tokens": 21, "final": False},
    "accepted prediction tokens are visible": {"accepted_prediction_tokens": 21},
    "accepted tokens were drafted": {},
    "rejected prediction tokens are positions of the prediction": {"rejected_prediction_tokens": 31},
    "completion tokens follow the tenant's policy": {"completion_tokens": 24},
    "an answer that ended is billed as generated": {"visible_tokens": 19, "completion_tokens": 19},
    "accepted tokens are those of the proposers": {"by_proposer": {"lookup": ProposerFigures(3, 20, 11)}},
    "decode tokens = steps + accepted": {"steps": 8},
}


@pytest.mark.parametrize("rule", BREAKS)
async def test_a_broken_figure_is_found(db: Database, rule: str) -> None:
    await open_requests(db, "good", "bad")
    await settle(db, "good")
    await settle(db, "bad", replace(ENDED, **BREAKS[rule]))
    if rule == "accepted tokens were drafted":
        await _change(db, drafted_tokens=11, accepted_tokens=12)
    assert await problems(db) == [Problem(rule, "bad")]


async def _change(db: Database, **values: Any) -> None:
    where = (ledger_entries.c.request_id == "bad", ledger_entries.c.kind == "settle")
    async with db.unit() as session:
        await session.execute(update(ledger_entries).where(*where).values(**values))


async def test_a_changed_copy_is_found(db: Database) -> None:
    await open_requests(db, "good", "bad")
    await settle(db, "good")
    await settle(db, "bad")
    await _change(db, tenant_id="another")
    assert await problems(db) == [Problem("a settle repeats its open", "bad")]


async def test_a_lost_open_is_found(db: Database) -> None:
    await open_requests(db, "good", "bad")
    await settle(db, "bad")
    async with db.unit() as session:
        where = (ledger_entries.c.request_id == "bad", ledger_entries.c.kind == "open")
        await session.execute(delete(ledger_entries).where(*where))
    assert await problems(db) == [Problem("every entry follows an open", "bad")]


async def test_a_second_settle_is_found_where_the_constraint_is_gone(db: Database) -> None:
    await open_requests(db, "good", "bad")
    await settle(db, "bad")
    async with db.unit() as session:
        await session.execute(text("DROP INDEX uq_ledger_entries_settle"))
    await settle(db, "bad")
    assert await problems(db) == [Problem("at most one settle", "bad")]


COPIES: dict[str, dict[str, Any]] = {
    "a cohort was drawn with a probability": {"cohort": "treated"},
    "a control drafted nothing": {"cohort": "control", "holdout_ppm": 20_000},
    "a price is known": {"deployment_id": "none", "price_version": 3},
}


@pytest.mark.parametrize("rule", COPIES)
async def test_what_a_request_was_admitted_with_is_looked_at(db: Database, rule: str) -> None:
    await open_requests(db, "good", cohort="treated", holdout_ppm=20_000)
    await open_requests(db, "bad", **COPIES[rule])
    await settle(db, "good")
    await settle(db, "bad")
    assert await problems(db) == [Problem(rule, "bad")]


@pytest.mark.parametrize(("reason", "author"), [(None, "op"), ("A credit.", None), ("", "op"), ("A credit.", "")])
async def test_an_adjustment_that_explains_nothing_is_found(db: Database, reason: str, author: str) -> None:
    await open_requests(db, "good", "bad")
    entry = {"kind": "adjust", "seq": 1, "at": datetime.now(UTC), "micros": -5}
    async with db.unit() as session:
        for request_id, told in (("good", ("A credit.", "op")), ("bad", (reason, author))):
            why = dict(zip(("reason", "author"), told, strict=True))
            row = copied_from(opening(request_id)) | entry | why | {"entry_id": uuid7()}
            await session.execute(insert(ledger_entries), row)
    assert await problems(db) == [Problem("an adjustment has a reason and an author", "bad")]


@pytest.mark.parametrize(("policy", "completion"), [("free", 20), ("billed", 24), ("capped", 24)])
async def test_each_policy_has_its_completion_tokens(db: Database, policy: str, completion: int) -> None:
    await open_requests(db, "r1", rejected_prediction=policy)
    await settle(db, "r1", replace(ENDED, completion_tokens=completion))
    assert await problems(db) == []

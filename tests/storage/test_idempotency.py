"""A name is one request's at a time, on both databases; outdated names go in bounded batches."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from storage import Database
from storage.idempotency import KEPT, SWEPT, Claim, Earlier, Idempotency
from storage.ledger import Ledger
from storage.models import idempotency_keys
from storage.values import Figures, Outcome, Settlement
from tests.storage.entries import opening

pytestmark = pytest.mark.anyio
CLAIM = Claim("abcdefghijkl", "/v1/chat/completions", "n" * 64, "b" * 64, "r0")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def _claim(db: Database, request_id: str, at: datetime | None = None) -> Earlier | None:
    """As a gateway does: the name and the ledger's entry in one transaction."""
    async with db.unit() as session:
        earlier = await Idempotency(session).claim(replace(CLAIM, request_id=request_id), at)
        if earlier is None:
            await Ledger(session).open(opening(request_id))
    return earlier


async def test_of_many_at_once_one_has_the_name(db: Database) -> None:
    found = await asyncio.gather(*(_claim(db, f"r{number}") for number in range(12)))
    [winner] = [number for number, earlier in enumerate(found) if earlier is None]
    assert {earlier for earlier in found if earlier} == {Earlier(f"r{winner}", "running")}


@pytest.mark.parametrize(
    ("outcome", "generated", "is_free"),
    [
        ("completed", 4, False),
        ("disconnected", 0, False),
        ("error", 0, True),
        ("error", 1, False),
        ("interrupted", 0, True),
        ("engine_lost", 0, True),
    ],
)
async def test_how_the_first_ended_decides(db: Database, outcome: Outcome, generated: int, is_free: bool) -> None:
    await _claim(db, "r0")
    figures = Figures(prompt_tokens=7, generated_tokens=generated, completion_tokens=generated)
    async with db.unit() as session:
        await Ledger(session).settle(Settlement("r0", outcome, figures))
    earlier = await _claim(db, "r1")
    assert earlier == (None if is_free else Earlier("r0", "ended", outcome, 7, generated))
    if is_free:
        assert await _claim(db, "r2") == Earlier("r1", "running")


async def test_outdated_names_go_a_few_at_a_time(db: Database) -> None:
    for number in range(SWEPT + 5):
        async with db.unit() as session:
            old = replace(CLAIM, name_hash=f"{number:064}", request_id=f"old{number}")
            await Idempotency(session).claim(old, NOW + timedelta(seconds=number))
    await _claim(db, "r0", NOW + KEPT + timedelta(hours=1))
    async with db.view() as session:
        assert await session.scalar(select(func.count()).select_from(idempotency_keys)) == 6

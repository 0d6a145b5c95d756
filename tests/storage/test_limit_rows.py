"""Limits and prices are rows; two editors cannot both win."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from storage import Database
from storage.limits.database_limiter import DatabaseLimiter
from storage.limits.rows import LimitRow, LimitRows
from storage.limits.values import Limits, Subject
from storage.money import Price
from tests.storage.entries import ENDED, open_requests, priced, settle

pytestmark = pytest.mark.anyio


async def _set(db: Database, new: Limits, before: int) -> LimitRow | None:
    async with db.unit() as session:
        return await LimitRows(session).set("key", "k", new, before)


async def test_what_was_never_set_is_no_limit(db: Database) -> None:
    async with db.view() as session:
        assert await LimitRows(session).get("tenant", "t") == LimitRow(Limits(), 0)


async def test_each_change_is_a_version_and_the_later_editor_loses(db: Database) -> None:
    for before in (0, 1):
        new = Limits(concurrency=before + 5)
        assert await _set(db, new, before) == LimitRow(new, before + 1)
        assert await _set(db, Limits(concurrency=1), before) is None
    raced = await asyncio.gather(*(_set(db, Limits(concurrency=n), 2) for n in range(10)))
    (winner,) = [row for row in raced if row is not None]
    async with db.view() as session:
        assert await LimitRows(session).get("key", "k") == winner == LimitRow(winner.limits, 3)


async def test_all_levels_are_read_at_once_in_their_order(db: Database) -> None:
    await _set(db, Limits(monthly_micros=2**62, requests_per_minute=0), 0)
    async with db.view() as session:
        assert await LimitRows(session).of([("tenant", "t"), ("project", "p"), ("key", "k")]) == (
            Subject("tenant", "t"),
            Subject("project", "p"),
            Subject("key", "k", Limits(monthly_micros=2**62, requests_per_minute=0)),
        )


async def test_a_budget_begins_with_what_the_month_has_used(db: Database) -> None:
    now = datetime.now(UTC)
    last_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(seconds=1)
    price = Price(input=1_000_000, cached=500_000, output=2_000_000)
    deployment = await priced(db, price, Price(input=9_000_000))
    await open_requests(db, "old", "new", "other", deployment_id=deployment, price_version=1)
    for request_id, at in (("old", last_month), ("new", now)):
        await settle(db, request_id, ENDED, at)
    subject = Subject("tenant", "default", Limits(monthly_tokens=10**6, monthly_micros=10**6))
    async with db.unit() as session:
        assert await LimitRows(session).set("tenant", "default", subject.limits, 0)
    tokens, micros = await DatabaseLimiter(db, 15).standings([subject])
    assert (tokens.used, micros.used) == (120, 52 + 24 + 40)
    async with db.unit() as session:
        assert await LimitRows(session).set("tenant", "default", Limits(monthly_tokens=5), 1)
    (tokens,) = await DatabaseLimiter(db, 15).standings([Subject("tenant", "default", Limits(monthly_tokens=5))])
    assert (tokens.used, tokens.remaining) == (120, 0), "only a first budget begins anew"

"""A session lives eight hours after its last use; the database holds no token."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from storage import Database
from storage.models import dashboard_sessions
from storage.sessions import IDLE, Sessions, SignedIn

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def _found(db: Database, token: str, at: datetime) -> SignedIn | None:
    async with db.view() as session:
        return await Sessions(session).find(token, at)


async def test_a_session_ends_eight_hours_after_its_last_use(db: Database) -> None:
    async with db.unit() as session:
        await Sessions(session).open("token", "abcdefghijkl", NOW)
    assert await _found(db, "token", NOW + timedelta(seconds=59)) == SignedIn("abcdefghijkl", needs_touch=False)
    assert await _found(db, "token", NOW + IDLE - SECOND) == SignedIn("abcdefghijkl", needs_touch=True)
    assert await _found(db, "token", NOW + IDLE) is None
    async with db.unit() as session:
        await Sessions(session).touch("token", NOW + timedelta(hours=1))
    assert await _found(db, "token", NOW + IDLE) == SignedIn("abcdefghijkl", needs_touch=True)
    assert await _found(db, "token", NOW + IDLE + timedelta(hours=1)) is None


async def test_one_is_closed_and_the_others_stay(db: Database) -> None:
    async with db.unit() as session:
        for token in ("one", "two"):
            await Sessions(session).open(token, "abcdefghijkl", NOW)
        await Sessions(session).close("one")
    assert [await _found(db, token, NOW) is None for token in ("one", "two", "none")] == [True, False, True]


async def test_only_a_hash_is_kept_and_what_has_ended_goes_with_the_next_one(db: Database) -> None:
    async with db.unit() as session:
        await Sessions(session).open("old", "abcdefghijkl", NOW)
        await Sessions(session).open("new", "abcdefghijkl", NOW + IDLE)
        rows = [tuple(row) for row in await session.execute(select(dashboard_sessions))]
    assert len(rows) == 1
    assert "new" not in repr(rows)
    assert len(rows[0][0]) == 64

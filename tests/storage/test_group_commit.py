"""Rows that come together share a commit, on every database where a commit waits; each is told its own fate."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.exc import DataError, IntegrityError

from storage import Database
from storage.errors import StorageAway, StorageFull, away
from storage.ledger import open_row, settle_row, write_row
from storage.models import ledger_entries, of_kind
from storage.values import Settlement
from tests.storage.entries import ENDED, opening, problems

pytestmark = pytest.mark.anyio
IDS = [f"r{number:03}" for number in range(64)]


@pytest.fixture(params=["power", "postgres"])
async def db(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    kind = "postgres" if request.param == "postgres" else "sqlite"
    database = await Database.open(str(request.getfixturevalue(f"{kind}_url")), durability="power")
    yield database
    await database.close()


@contextmanager
def commits(db: Database) -> Iterator[list[None]]:
    counted: list[None] = []

    def count(_: Any) -> None:
        counted.append(None)

    event.listen(db._writer.sync_engine, "commit", count)
    try:
        yield counted
    finally:
        event.remove(db._writer.sync_engine, "commit", count)


async def opened(db: Database) -> int:
    async with db.view() as session:
        statement = select(func.count()).where(of_kind(ledger_entries, "open"))
        return int(await session.scalar(statement) or 0)


async def test_what_comes_together_shares_a_commit(db: Database) -> None:
    with commits(db) as counted:
        told = await asyncio.gather(*(write_row(db, open_row(opening(name))) for name in IDS))
    assert told == [True] * 64
    assert len(counted) == 1
    ends = [settle_row(opening(name), Settlement(name, "completed", ENDED)) for name in IDS]
    assert await asyncio.gather(*(write_row(db, row) for row in ends)) == [True] * 64
    assert await opened(db) == 64
    assert await problems(db) == []


async def test_each_is_told_whether_it_was_the_first(db: Database) -> None:
    rows = [open_row(opening(name)) for name in ("r1", "r2", "r1", "r3", "r2", "r1")]
    told = await asyncio.gather(*(write_row(db, row) for row in rows))
    assert told == [True, True, False, True, False, False]
    assert await write_row(db, rows[0]) is False
    assert await opened(db) == 3


async def test_a_row_that_is_refused_loses_only_itself(db: Database) -> None:
    rows = [dict(open_row(opening(name))) for name in IDS]
    rows[7]["kind"] = "other"  # breaks a constraint
    rows[9]["tenant_id"] = None
    told = await asyncio.gather(*(write_row(db, row) for row in rows), return_exceptions=True)
    assert [number for number, answer in enumerate(told) if answer is not True] == [7, 9]
    assert {type(told[7]), type(told[9])} == {IntegrityError}
    assert await opened(db) == 62


async def test_postgres_takes_no_nul_and_loses_nothing_for_it(postgres_url: str) -> None:
    db = await Database.open(postgres_url)
    rows = [dict(open_row(opening(name))) for name in IDS]
    rows[3]["model"] = "a\0b"
    told = await asyncio.gather(*(write_row(db, row) for row in rows), return_exceptions=True)
    assert [number for number, answer in enumerate(told) if answer is not True] == [3]
    assert isinstance(told[3], DataError)
    assert await opened(db) == 63
    await db.close()


async def test_sixteen_writers_and_long_units_starve_neither(db: Database) -> None:
    """Regression: with durability `power` rows waited for each other, one commit each, and requests got a 503."""
    longest = 0.0
    loop = asyncio.get_running_loop()

    async def client(number: int) -> None:
        nonlocal longest
        for turn in range(12):
            began = loop.time()
            name = f"c{number}-{turn}"
            await write_row(db, open_row(opening(name)))
            async with db.unit() as session:
                await session.scalar(select(func.count()).where(of_kind(ledger_entries, "open")))
            await write_row(db, settle_row(opening(name), Settlement(name, "completed", ENDED)))
            longest = max(longest, loop.time() - began)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(client, range(16)))
    assert await opened(db) == 192
    assert await problems(db) == []
    assert longest < 5


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ({"sqlite_errorcode": 13}, StorageFull),
        ({"sqlite_errorcode": 5}, StorageAway),
        ({"sqlstate": "53100"}, StorageFull),
        ({"sqlstate": "40P01"}, StorageAway),
        ({}, StorageAway),
    ],
)
def test_a_full_disk_is_told_apart(codes: dict[str, Any], kind: type[StorageAway]) -> None:
    error = type("DriverError", (Exception,), codes)("words of the driver")
    assert type(away(error)) is kind
    assert str(away(error)) == "words of the driver"

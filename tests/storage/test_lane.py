"""The short way into SQLite is only shorter: beside units of work and other processes it waits its turn."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import Database, StorageAway
from storage.limits.lane import Lane
from storage.limits.values import Claim, Reservation, Used
from storage.tenants import Tenants
from tests.storage.limiting import Bench, in_database, key

pytestmark = pytest.mark.anyio


async def test_it_waits_for_a_unit_of_work_of_the_same_process(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as bench.limiter:
        async with db.unit() as session:
            await Tenants(session).ensure("t", "T")
            reserving = asyncio.create_task(bench.ask(key(concurrency=1, monthly_tokens=9)))
            await asyncio.sleep(0.05)
            assert not reserving.done()
        assert isinstance(await reserving, Reservation)
    await db.close()


async def test_it_waits_for_another_process(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as bench.limiter:
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite+aiosqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            reserving = asyncio.create_task(bench.ask(key(requests_per_minute=1)))
            await asyncio.sleep(0.05)
            assert not reserving.done()
            other.execute("ROLLBACK")
            assert isinstance(await reserving, Reservation)
    await db.close()


async def test_what_fails_half_way_leaves_nothing_and_frees_the_lock(sqlite_url: str) -> None:
    """The same id twice: its budget cannot be held again."""
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as bench.limiter:
        claim = bench.claim(key(requests_per_minute=5, monthly_tokens=100))
        assert isinstance(await bench.limiter.reserve(claim), Reservation)
        before = await bench.used(*claim.subjects)
        with pytest.raises(StorageAway, match="UNIQUE"):
            await bench.limiter.reserve(claim)
        assert await bench.used(*claim.subjects) == before
        async with db.unit() as session:
            await Tenants(session).ensure("t", "T")
    await db.close()


def test_it_is_for_sqlite_that_need_not_wait_for_the_disk(tmp_path: Path) -> None:
    assert Lane.of("postgresql+psycopg://x@127.0.0.1/y", "power") is None
    assert Lane.of(f"sqlite+aiosqlite:///{tmp_path}/x.db", "power") is None


async def test_a_release_is_done_before_whatever_is_decided_next(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as limiter:
        bench.limiter = limiter
        for _ in range(3):
            claim = bench.claim(key(concurrency=1, requests_per_minute=9, monthly_tokens=10**6), input=100, output=50)
            held = limiter.reserve_now(claim)
            assert isinstance(held, Reservation), "the one before it had ended"
            assert limiter.release_now(held, Used(7, 3))
        await soon(bench, claim, [0, 3, 21, 9, 30, 0])
    await db.close()


async def test_a_release_waits_for_the_lock_and_is_done_once(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as limiter:
        bench.limiter = limiter
        claim = bench.claim(key(concurrency=1, requests_per_minute=9, monthly_tokens=10**6), input=100, output=50)
        held = limiter.reserve_now(claim)
        assert isinstance(held, Reservation)
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite+aiosqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert limiter.release_now(held, Used(7, 3))
            assert limiter.reserve_now(claim) is None
            await asyncio.sleep(0.05)
            assert (await numbers(bench, claim))[0] == 1
            other.execute("ROLLBACK")
        await soon(bench, claim, [0, 1, 7, 3, 10, 0])
    await db.close()


async def test_a_release_survives_what_fails_in_its_transaction(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    bench = Bench(db)
    async with in_database(bench, sqlite_url) as limiter:
        bench.limiter = limiter
        claims = [bench.claim(key(requests_per_minute=9, monthly_tokens=10**6), input=10, output=5) for _ in range(2)]
        first, second = (limiter.reserve_now(claim) for claim in claims)
        assert isinstance(first, Reservation)
        assert isinstance(second, Reservation)
        assert limiter.release_now(first, Used(1, 1))
        with pytest.raises(StorageAway, match="UNIQUE"):
            limiter.reserve_now(claims[1])
        assert limiter.release_now(second, Used(2, 2))
        await soon(bench, claims[0], [0, 2, 3, 3, 6, 0])
    await db.close()


async def numbers(bench: Bench, claim: Claim) -> list[int]:
    return list((await bench.used(*claim.subjects)).values())


async def soon(bench: Bench, claim: Claim, expected: list[int]) -> None:
    async with asyncio.timeout(5):
        while (told := await numbers(bench, claim)) != expected:
            assert told[2] >= expected[2], "given back twice"
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    assert await numbers(bench, claim) == expected

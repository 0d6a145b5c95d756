"""Units of work commit together or not at all, whatever ends them; an absent database says so quickly."""

import asyncio
import os
import random
import socket
import time
from datetime import UTC, datetime

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, InternalError

from storage import Database, StorageAway
from storage.api_keys import ApiKeys
from storage.inline_sqlite import COMMITS_A_CHECKPOINT
from storage.models import tenants
from storage.tenants import Tenants

pytestmark = pytest.mark.anyio


async def _tenants(db: Database) -> list[str]:
    async with db.view() as session:
        return [tenant.id for tenant in await Tenants(session).list()]


async def test_a_unit_that_raises_leaves_nothing(db: Database) -> None:
    async def half() -> None:
        async with db.unit() as session:
            await Tenants(session).ensure("lost", "Lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await half()
    assert await _tenants(db) == ["default"]


async def test_a_unit_is_seen_by_others_once_it_ended(db: Database) -> None:
    async with db.unit() as session:
        await Tenants(session).ensure("new", "New")
        assert await _tenants(db) == ["default"]
    assert await _tenants(db) == ["default", "new"]


async def test_a_view_cannot_write(db: Database) -> None:
    with pytest.raises((StorageAway, InternalError), match="read"):
        async with db.view() as session:
            await Tenants(session).ensure("x", "X")
    assert await _tenants(db) == ["default"]


async def test_a_key_needs_its_tenant(db: Database) -> None:
    with pytest.raises(IntegrityError):
        async with db.unit() as session:
            await ApiKeys(session).create("nobody", "inference", "one")


@pytest.mark.parametrize("seed", range(4))
async def test_cancelled_units_neither_commit_nor_hold_the_writer(db: Database, seed: int) -> None:
    """Regression: a caller cut inside a statement left SQLite locked for as long as its traceback lived."""

    async def write(number: int) -> None:
        async with db.unit() as session:
            await Tenants(session).ensure(f"t{number}", "T")
            await asyncio.sleep(0.001)
            await Tenants(session).ensure(f"u{number}", "U")

    delays = random.Random(seed)
    tasks = [asyncio.create_task(write(number)) for number in range(60)]
    for number, task in enumerate(tasks):
        await asyncio.sleep(delays.random() * 0.004)
        if number % 2:
            task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), asyncio.CancelledError}
    found = await _tenants(db)
    assert sorted(t[1:] for t in found if t[0] == "t") == sorted(u[1:] for u in found if u[0] == "u")
    async with asyncio.timeout(3):
        await write(1000)
    assert {"t1000", "u1000"} <= set(await _tenants(db))


async def test_two_databases_on_one_file_wait_for_each_other(sqlite_url: str) -> None:
    """A unit that reads before it writes would fail at once, were the lock not taken when it begins."""
    first, second = await Database.open(sqlite_url), await Database.open(sqlite_url)

    async def write(db: Database, name: str) -> None:
        async with db.unit() as session:
            await Tenants(session).list()
            await asyncio.sleep(0.01)
            await Tenants(session).ensure(name, name)

    await asyncio.gather(*(write(db, f"{n}-{i}") for n, db in enumerate((first, second)) for i in range(10)))
    assert len(await _tenants(first)) == 20
    await first.close()
    await second.close()


async def _pragma(db: Database, name: str) -> object:
    async with db.unit() as session:
        return (await session.execute(text(f"PRAGMA {name}"))).scalar_one()


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
async def test_the_durability_asked_for_is_set(sqlite_url: str, durability: str, synchronous: int) -> None:
    db = await Database.open(sqlite_url, durability=durability)
    assert (db.durability, await _pragma(db, "journal_mode"), await _pragma(db, "synchronous")) == (
        durability,
        "wal",
        synchronous,
    )
    assert await _pragma(db, "foreign_keys") == 1
    await db.close()


async def test_postgres_commits_survive_power_whatever_the_server_prefers(postgres_url: str) -> None:
    db = await Database.open(f"{postgres_url}?options=-csynchronous_commit%3Doff", durability="process")
    async with db.view() as session:
        assert (await session.execute(text("SHOW synchronous_commit"))).scalar_one() == "on"
    assert db.durability == "power"
    await db.close()


async def test_a_restarted_server_costs_no_request(postgres_url: str) -> None:
    db = await Database.open(postgres_url)
    async with db.unit() as session, db.view() as other:
        await session.execute(text("SELECT 1"))
        await other.execute(text("SELECT 1"))
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()"
        ).fetchall()
    assert len(ended) == 2
    async with db.unit() as session:
        await Tenants(session).ensure("after", "After")
    assert await _tenants(db) == ["after"]
    await db.close()


async def test_a_connection_lost_inside_a_unit_is_storage_away(postgres_url: str) -> None:
    db = await Database.open(postgres_url)

    async def cut() -> None:
        async with db.unit() as session:
            await Tenants(session).ensure("lost", "Lost")
            pid = (await session.execute(text("SELECT pg_backend_pid()"))).scalar_one()
            with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", [pid])

    with pytest.raises(StorageAway):
        await cut()
    assert await _tenants(db) == []
    await db.close()


async def test_an_absent_server_is_told_within_two_seconds() -> None:
    begun = time.monotonic()
    with pytest.raises(StorageAway):
        await Database.open("postgresql+psycopg://postgres@127.0.0.1:1/none")
    assert time.monotonic() - begun < 2


async def test_ping_answers_or_gives_up_within_two_seconds(db: Database) -> None:
    await db.ping()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = Database.of_postgres(f"postgresql+psycopg://postgres@127.0.0.1:{silent.getsockname()[1]}/none")
        begun = time.monotonic()
        with pytest.raises(StorageAway, match="within a second"):
            await away.ping()
        assert time.monotonic() - begun < 2
        await away.close()


async def test_the_log_is_written_back_and_begun_anew(sqlite_url: str) -> None:
    """Regression: it was never written back, and grew for as long as the gateway ran."""
    db = await Database.open(sqlite_url)
    await _pragma(db, "journal_mode")
    sizes = []
    for number in range(4 * COMMITS_A_CHECKPOINT):
        db.append_now(tenants, {"id": f"t{number}", "name": "T", "created_at": datetime.now(UTC)})
        if number % COMMITS_A_CHECKPOINT == COMMITS_A_CHECKPOINT - 1:
            await asyncio.sleep(0.2)
            sizes.append(os.stat(f"{make_url(sqlite_url).database}-wal").st_size)
    assert sizes[0] > 2**20
    assert sizes[-1] < 1.5 * sizes[0]
    await db.close()

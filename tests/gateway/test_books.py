"""The ledger out of reach: new requests are refused in time, running ones finish, and nothing stays open."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import Gateway, frames, running

pytestmark = pytest.mark.anyio


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program holds the database's only write lock."""
    connection = sqlite3.connect(home / "specgate.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


async def warm(gateway: Gateway) -> None:
    """The key is known: what follows is about the ledger alone."""
    assert (await gateway.http.get("/v1/models")).status_code == 200


async def test_new_requests_get_a_503_within_a_second_or_so(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), storage_seconds=1) as gateway:
        await warm(gateway)
        with locked(tmp_path):
            asked = time.monotonic()
            response = await gateway.chat(stream=True)
            assert time.monotonic() - asked < 1.5
            assert (response.status_code, response.json()["error"]["code"]) == (503, "storage_unavailable")
            assert response.headers["retry-after"] == "1"
            assert gateway.engine.requests == []
        row = await gateway.settled()
        assert (row.outcome, row.completion_tokens) == ("error", 0), "opened late, for nobody: settled as nothing"
        assert (await gateway.chat()).status_code == 200


async def test_a_client_that_leaves_while_the_ledger_opens(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), storage_seconds=1) as gateway:
        await warm(gateway)
        with locked(tmp_path):
            asking = asyncio.create_task(gateway.chat())
            await asyncio.sleep(0.2)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.sleep(0.2)
        row = await gateway.settled()
        assert (row.outcome, row.completion_tokens) == ("disconnected", 0)
        assert gateway.engine.requests == []


async def test_a_running_stream_ends_well_and_is_settled_later(tmp_path: Path) -> None:
    engine = FakeEngine(Script(hold_at=2))
    async with running(tmp_path, engine, checkpoint_seconds=60, storage_seconds=1) as gateway:
        asking = asyncio.create_task(gateway.chat(stream=True))
        while engine.sent < 2:
            await asyncio.sleep(0.005)
        with locked(tmp_path):
            engine.release.set()
            response = await asking
            assert frames(response.text)[-1] == "[DONE]"
            assert await gateway.rows("settle") == []
        row = await gateway.settled()
        assert (row.outcome, row.completion_tokens) == ("completed", 4)


async def test_checkpoints_by_tokens_and_by_time(tmp_path: Path) -> None:
    """What a killed gateway would bill is at most `checkpoint_tokens` or `checkpoint_seconds` behind."""
    words = tuple(f" {i}" for i in range(300))
    engine = FakeEngine(Script(words=words, step=5, hold_at=250, gap=0.002))
    async with running(tmp_path, engine, checkpoint_seconds=0.3) as gateway:
        asking = asyncio.create_task(gateway.chat(stream=True))
        while engine.sent < 251:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.6)
        notes = await gateway.rows("checkpoint")
        assert len(notes) >= 3
        assert notes[-1].delivered_tokens == notes[-1].generated_tokens == 251
        assert notes[-1].prompt_tokens == 7
        steps = [b.delivered_tokens - a.delivered_tokens for a, b in pairwise(notes)]
        assert max([notes[0].delivered_tokens, *steps]) <= 64 + 4 * 5, "64 tokens, and those of the write's own time"
        engine.release.set()
        await asking
        assert (await gateway.settled()).completion_tokens == 300


async def test_many_clients_where_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """Regression: with durability `power` rows waited for each other, and some requests got a 503 after a second."""
    engine = FakeEngine()
    async with running(tmp_path, engine, durability="power", storage_seconds=1) as gateway:

        async def one_after_another() -> list[int]:
            return [(await gateway.chat(stream=turn % 2 == 0)).status_code for turn in range(10)]

        statuses = await asyncio.gather(*(one_after_another() for _ in range(16)))
        assert statuses == [[200] * 10] * 16
        assert len(await gateway.rows("settle")) == len(engine.requests) == 160

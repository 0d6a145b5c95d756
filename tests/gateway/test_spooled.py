"""What a stream used while the database was away is exact, even where its gateway is killed before it comes back."""

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Row, select

from storage import Database
from storage.models import ledger_entries, of_kind
from storage.schema import upgrade
from tests.gateway.processes import started
from tests.gateway.running import CHAT, chat_body, frames
from tests.storage.postgres import Cluster, Server, cluster

pytestmark = pytest.mark.anyio
SETTINGS: dict[str, Any] = {"storage_seconds": 1.0, "secret": "s" * 40, "checkpoint_seconds": 60}
STREAMS = 4
SCRIPT = {"gap": 0.01, "step": 3, "rejected": 2}


@contextmanager
def locked(home: Path) -> Iterator[None]:
    connection = sqlite3.connect(home / "specgate.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def stopped(database: Cluster) -> Iterator[None]:
    database.stop()
    try:
        yield
    finally:
        database.start()


@pytest.fixture(params=["sqlite", "postgres"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str | None, Any]]:
    """The database's address, and what takes it away."""
    if request.param == "sqlite":
        yield None, lambda: locked(tmp_path)
        return
    with cluster() as database:
        url = Server(database.address).create(f"test_{uuid4().hex}")
        upgrade(url)
        yield url, lambda: stopped(database)


async def settlements(url: str) -> dict[str, Row[Any]]:
    db = await Database.open(url)
    async with db.view() as session:
        rows = list(await session.execute(select(ledger_entries).where(of_kind(ledger_entries, "settle"))))
    await db.close()
    assert len({row.request_id for row in rows}) == len(rows)
    return {row.request_id: row for row in rows}


async def test_away_then_killed_then_both_return(tmp_path: Path, away: tuple[str | None, Any]) -> None:
    url, taken_away = away
    at = {"database_url": url} if url else {}
    shown: dict[str, Any] = {}
    async with started(tmp_path, SCRIPT, **SETTINGS, **at) as gateway:

        async def ask() -> None:
            options = {"include_usage": True}
            body = chat_body(stream=True, stream_options=options)
            async with gateway.http.stream("POST", CHAT, json=body) as response:
                begun.release()
                told = frames("".join([part async for part in response.aiter_text()]))
            assert told[-1] == "[DONE]"
            shown[response.headers["x-request-id"]] = told[-2]["usage"]

        begun = asyncio.Semaphore(0)
        asking = [asyncio.create_task(ask()) for _ in range(STREAMS)]
        for _ in asking:
            await begun.acquire()
        with taken_away():
            async with asyncio.timeout(20):
                await asyncio.gather(*asking)
            gateway.send(signal.SIGKILL)
            await gateway.ended()
            assert (tmp_path / "spool" / "settlements.jsonl").read_bytes().count(b"\n") == STREAMS
    async with started(tmp_path, {}, **SETTINGS, **at) as again:
        assert again.told["recovered"] == 0, "nobody settled them from their checkpoints"
        again.send(signal.SIGTERM)
        assert await again.ended() == 0
    rows = await settlements(url or f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    assert rows.keys() == shown.keys()
    for request_id, usage in shown.items():
        row = rows[request_id]
        assert (row.outcome, row.final) == ("completed", True)
        assert (row.prompt_tokens, row.completion_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
        assert row.completion_tokens == 400
        assert row.rejected_prediction_tokens == usage["completion_tokens_details"]["rejected_prediction_tokens"] == 2
    assert list((tmp_path / "spool").iterdir()) == [], "taken, and so not kept"

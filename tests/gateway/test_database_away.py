"""A real database that goes and comes back: keys are never called wrong for it, streams finish, all recovers alone."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from storage.schema import upgrade
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, Gateway, chat_body, client, frames, running
from tests.storage.postgres import Cluster, Server, cluster

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("database_away")]
WORDS = tuple(f" {number}" for number in range(40))


@pytest.fixture(scope="module")
def database() -> Iterator[Cluster]:
    """Every test leaves it running."""
    with cluster() as found:
        yield found


@pytest.fixture
async def gateway(tmp_path: Path, database: Cluster) -> AsyncIterator[Gateway]:
    url = Server(database.address).create(f"test_{uuid4().hex}")
    upgrade(url)
    engine = FakeEngine(Script(words=WORDS))
    async with running(tmp_path, engine, database_url=url, storage_seconds=1.0) as found:
        yield found


async def _statuses(gateway: Gateway) -> set[tuple[int, str | None]]:
    """Of every kind of key on every kind of route; each within two seconds, and a 503 with `retry-after`."""
    seen = set()
    async with client(gateway.url, gateway.operator_key) as operator:
        for http, method, path, more in (
            (gateway.http, "GET", "/v1/models", {}),
            (gateway.http, "POST", CHAT, {"json": chat_body()}),
            (gateway.http, "POST", CHAT, {"json": chat_body(stream=True)}),
            (operator, "GET", "/v1/organization/projects", {}),
            (operator, "POST", "/v1/organization/projects", {"json": {"name": "x"}}),
            (operator, "GET", "/v1/organization/usage/completions?start_time=0", {}),
        ):
            seen.add(await _status(http, method, path, more))
    return seen


async def _status(http: httpx.AsyncClient, method: str, path: str, more: dict[str, Any]) -> tuple[int, str | None]:
    begun = time.monotonic()
    answer = await http.request(method, path, **more)
    assert time.monotonic() - begun < 3
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code, answer.json()["error"]["code"] if answer.is_error else None


async def _recovered(gateway: Gateway) -> None:
    async with asyncio.timeout(20):
        while await _statuses(gateway) != {(200, None)}:
            await asyncio.sleep(0.2)


AWAY = {(503, "storage_unavailable")}


async def test_stopped_and_started(gateway: Gateway, database: Cluster) -> None:
    assert await _statuses(gateway) == {(200, None)}
    database.stop()
    await asyncio.sleep(1.1)
    assert await _statuses(gateway) == AWAY
    assert (await gateway.http.get("/readyz")).status_code == 503
    assert (await gateway.http.get("/livez")).status_code == 200
    database.start()
    await _recovered(gateway)
    assert (await gateway.http.get("/readyz")).status_code == 200


async def test_frozen_and_thawed(gateway: Gateway, database: Cluster) -> None:
    assert await _statuses(gateway) == {(200, None)}
    with database.frozen():
        await asyncio.sleep(1.1)
        assert await _statuses(gateway) == AWAY
    await _recovered(gateway)


async def test_a_warm_key_is_no_wrong_key(gateway: Gateway, database: Cluster) -> None:
    """Within the second for which it is remembered the ledger cannot be opened: that too is 503, and no 401."""
    assert (await gateway.http.get("/v1/models")).status_code == 200
    database.stop()
    for _ in range(8):
        assert await _status(gateway.http, "POST", CHAT, {"json": chat_body()}) == (503, "storage_unavailable")
    unknown = {"authorization": "Bearer sk-sg-aaaaaaaaaaaa-" + "x" * 43}
    assert (await gateway.http.get("/v1/models", headers=unknown)).status_code == 503
    assert gateway.engine.requests == []
    database.start()
    await _recovered(gateway)


async def test_a_running_stream_finishes_and_settles_when_it_is_back(gateway: Gateway, database: Cluster) -> None:
    gateway.engine.script = Script(words=WORDS, gap=0.05)
    async with gateway.http.stream("POST", CHAT, json=chat_body(stream=True)) as response:
        text = response.aiter_text()
        said = await anext(text)
        database.stop()
        said += "".join([part async for part in text])
    assert frames(said)[-1] == "[DONE]"
    database.start()
    async with asyncio.timeout(20):
        while not (await gateway.http.get("/readyz")).is_success:
            await asyncio.sleep(0.1)
    row = await gateway.settled()
    assert (row.outcome, row.generated_tokens) == ("completed", 40)

"""Four gateway processes on one store: a limit is that of all together, and what a killed one held comes back."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from storage import Database
from storage.ledger import Ledger
from storage.models import budget_holds, ledger_entries
from tests.gateway.processes import Process, started
from tests.gateway.running import CHAT, chat_body, client
from tests.storage.valkey import valkey

pytestmark = pytest.mark.anyio
LEASE = 6.0
"""A busy machine may be late by seconds."""
SETTINGS = {"secret": "s" * 40, "lease_seconds": LEASE, "redis_seconds": 10}
TENANT = "/admin/v1/limits/tenant/default"


@asynccontextmanager
async def four_gateways(tmp_path: Path, url: str, **settings: Any) -> AsyncIterator[list[Process]]:
    """Their engines hold every answer after its first token."""
    async with AsyncExitStack() as stack:

        async def start(number: int) -> Process:
            home = tmp_path / str(number)
            script = {"hold_at": 1}
            return await stack.enter_async_context(started(home, script, database_url=url, **SETTINGS | settings))

        yield [await start(0), *await asyncio.gather(*(start(number) for number in (1, 2, 3)))]


class Crowd:
    """Streams that are kept open once they are answered."""

    def __init__(self, gateways: list[Process]) -> None:
        self._gateways = gateways
        self._stack = AsyncExitStack()
        self.open: dict[int, int] = {}
        """Gateway → streams that were let in."""
        self.refused: list[str] = []

    async def __aenter__(self) -> "Crowd":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ask(self, number: int) -> None:
        await asyncio.gather(*(self._ask(i % len(self._gateways)) for i in range(number)))

    async def _ask(self, gateway: int) -> None:
        body = chat_body(stream=True, max_tokens=50)
        response = await self._stack.enter_async_context(self._gateways[gateway].http.stream("POST", CHAT, json=body))
        if response.status_code == 200:
            self.open[gateway] = self.open.get(gateway, 0) + 1
        else:
            await response.aread()
            self.refused.append(response.json()["error"]["code"])


async def set_limits(http: httpx.AsyncClient, **limits: int | None) -> None:
    answer = await http.patch(TENANT, json=limits, headers={"if-match": "*"})
    assert answer.status_code == 200, answer.text
    await asyncio.sleep(1.1)


async def used(http: httpx.AsyncClient) -> dict[str, int]:
    return {one["name"]: one["used"] for one in (await http.get(TENANT)).json()["standings"]}


async def becomes(http: httpx.AsyncClient, name: str, amount: int, seconds: float = 20) -> None:
    try:
        async with asyncio.timeout(seconds):
            while (await used(http))[name] != amount:
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{name} is {await used(http)}, not {amount}, after {seconds} s") from None


async def billed(db: Database) -> int:
    columns = ledger_entries.c
    statement = select(func.sum(columns.prompt_tokens + columns.completion_tokens)).where(columns.kind == "settle")
    async with db.view() as session:
        return int(await session.scalar(statement) or 0)


@pytest.mark.parametrize(
    "store", [pytest.param("sqlite", marks=pytest.mark.long), "postgres", pytest.param("redis", marks=pytest.mark.long)]
)
@pytest.mark.timeout(180)
async def test_four_gateways_share_every_limit(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    async with AsyncExitStack() as stack:
        url = f"sqlite+aiosqlite:///{tmp_path / 'shared.db'}"
        url = str(request.getfixturevalue("postgres_url")) if store == "postgres" else url
        redis = {"redis_url": stack.enter_context(valkey(tmp_path)).url} if store == "redis" else {}
        gateways = await stack.enter_async_context(four_gateways(tmp_path, url, **redis))
        db = await Database.open(url)
        stack.push_async_callback(db.close)
        told = gateways[3].told
        http = await stack.enter_async_context(client(told["admin_url"], told["operator_key"]))

        await set_limits(http, requests_per_minute=10)
        async with Crowd(gateways) as crowd:
            await crowd.ask(50)
            assert sum(crowd.open.values()) == 10
            assert crowd.refused == ["rate_limit_exceeded"] * 40
        assert (await used(http))["requests_per_minute"] == 10

        await is_settled(db)
        await set_limits(http, requests_per_minute=None, concurrency=10, monthly_tokens=10_000)
        async with Crowd(gateways) as crowd:
            await crowd.ask(50)
            assert sum(crowd.open.values()) == 10
            await becomes(http, "concurrency", 10)
            await crowd.ask(4)
            assert len(crowd.refused) == 44, "a second wave finds no place either"
            gateways[0].send(signal.SIGKILL)
            await becomes(http, "concurrency", 10 - crowd.open.get(0, 0))
        await becomes(http, "concurrency", 0)

        await is_settled(db)
        assert (await used(http))["monthly_tokens"] == await billed(db)
        async with db.view() as session:
            assert await Ledger(session).verify() == []
            assert await Ledger(session).unsettled() == []


async def is_settled(db: Database) -> None:
    """Nothing is held, no request is open."""
    async with asyncio.timeout(30):
        while await _num_open(db):
            await asyncio.sleep(0.1)


async def _num_open(db: Database) -> int:
    async with db.view() as session:
        holds = await session.scalar(select(func.count()).select_from(budget_holds))
        return int(holds or 0) + len(await Ledger(session).unsettled())

"""Two gateways on one database, without Redis: a revoked key is refused everywhere within a second, under load, and
its open streams are cut within five."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.gateway.processes import Process, started
from tests.gateway.running import CHAT, chat_body, client, frames

pytestmark = pytest.mark.anyio
SCRIPT = {"gap": 0.2}
"""400 tokens at five a second: nothing ends of itself."""
SHARED = {"secret": "s" * 40, "redis_url": "redis://127.0.0.1:1/0"}
PROJECTS = "/v1/organization/projects"


@dataclass
class Load:
    """Requests without pause, a client for each gateway: when each was sent and answered, and its status."""

    answers: list[tuple[float, float, int]] = field(default_factory=list)
    is_over: bool = False

    async def run(self, url: str, key: str) -> None:
        async with client(url, key) as http:
            while not self.is_over:
                sent = time.monotonic()
                status = (await http.get("/v1/models")).status_code
                self.answers.append((sent, time.monotonic(), status))

    def answered_until(self, moment: float) -> set[int]:
        return {status for _, answered, status in self.answers if answered < moment}

    def sent_from(self, moment: float) -> set[int]:
        return {status for sent, _, status in self.answers if sent >= moment}


@asynccontextmanager
async def two_gateways(tmp_path: Path, url: str) -> AsyncIterator[tuple[Process, Process]]:
    async with AsyncExitStack() as stack:
        homes = [tmp_path / "one", tmp_path / "two"]
        first, second = [
            await stack.enter_async_context(started(home, SCRIPT, database_url=url, **SHARED)) for home in homes
        ]
        yield first, second


async def _open_stream(url: str, key: str, is_open: asyncio.Semaphore) -> tuple[float, str]:
    """When it ended, and all that it said."""
    said = ""
    async with client(url, key) as http, http.stream("POST", CHAT, json=chat_body(stream=True)) as response:
        assert response.status_code == 200
        async for text in response.aiter_text():
            if not said:
                is_open.release()
            said += text
    return time.monotonic(), said


@dataclass(frozen=True)
class Victim:
    """A tenant with one key, and the call that ends it."""

    key: str
    tenant_id: str
    call: tuple[str, str]
    status: int


async def _victim(operator: httpx.AsyncClient, how: str) -> Victim:
    await operator.post("/admin/v1/tenants", json={"id": how, "name": how})
    headers = {"openai-organization": how}
    project = (await operator.post(PROJECTS, json={"name": "p"}, headers=headers)).json()["id"]
    accounts = f"{PROJECTS}/{project}/service_accounts"
    account = (await operator.post(accounts, json={"name": "a"}, headers=headers)).json()
    key = account["api_key"]
    calls = {
        "key": ("DELETE", f"{PROJECTS}/{project}/api_keys/{key['id']}"),
        "account": ("DELETE", f"{accounts}/{account['id']}"),
        "project": ("POST", f"{PROJECTS}/{project}/archive"),
        "tenant": ("POST", f"/admin/v1/tenants/{how}/suspend"),
    }
    return Victim(key["value"], how, calls[how], 403 if how == "tenant" else 401)


async def _revoke(operator: httpx.AsyncClient, victim: Victim) -> float:
    """When it was answered."""
    answer = await operator.request(*victim.call, headers={"openai-organization": victim.tenant_id})
    assert answer.status_code == 200, answer.text
    return time.monotonic()


async def _attack(operator: httpx.AsyncClient, urls: list[str], victim: Victim) -> None:
    load, is_open = Load(), asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        for url in urls:
            group.create_task(load.run(url, victim.key))
        streams = [group.create_task(_open_stream(url, victim.key, is_open)) for url in urls]
        for _ in streams:
            await is_open.acquire()
        await asyncio.sleep(0.3)
        asked = time.monotonic()
        revoked = await _revoke(operator, victim)
        ends = [await stream for stream in streams]
        await asyncio.sleep(max(0.0, revoked + 1.5 - time.monotonic()))
        load.is_over = True
    assert load.answered_until(asked) == {200}
    assert load.sent_from(revoked + 1.0) == {victim.status}
    for ended, said in ends:
        assert ended - revoked < 5
        assert frames(said)[-1]["error"]["code"] == "invalid_api_key"


async def test_what_is_revoked_under_load_is_refused_everywhere(tmp_path: Path, postgres_url: str) -> None:
    """A key, a service account, an archived project and a suspended tenant, at once."""
    async with AsyncExitStack() as stack:
        gateways = await stack.enter_async_context(two_gateways(tmp_path, postgres_url))
        urls = [gateway.told["url"] for gateway in gateways]
        operator = await stack.enter_async_context(client(urls[0], gateways[0].told["operator_key"]))
        victims = [await _victim(operator, how) for how in ("key", "account", "project", "tenant")]
        await asyncio.gather(*(_attack(operator, urls, victim) for victim in victims))

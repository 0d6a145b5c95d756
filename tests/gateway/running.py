"""A whole gateway on a real socket, with an engine by script; every test that serves requests proves the ledger."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Row, select

from gateway.app import build_app
from gateway.deployments.host import StartEngine
from gateway.parts import Parts
from gateway.serve import open_parts
from gateway.server import Server, listen, url_of
from gateway.settings import Settings
from storage.models import ledger_entries
from tests.gateway.fake_engine import FakeEngine
from tests.ledger_proof import prove

CHAT = "/v1/chat/completions"
MODEL = "smollm2-135m"


@dataclass
class Gateway:
    url: str
    key: str
    operator_key: str
    parts: Parts
    engine: FakeEngine
    http: httpx.AsyncClient
    """Carries the inference key."""

    async def chat(self, **members: Any) -> httpx.Response:
        return await self.http.post(CHAT, json=chat_body(**members))

    async def rows(self, kind: str) -> list[Row[Any]]:
        statement = select(ledger_entries).where(ledger_entries.c.kind == kind).order_by(ledger_entries.c.entry_id)
        async with self.parts.db.view() as session:
            return list((await session.execute(statement)).all())

    async def settled(self) -> Row[Any]:
        """The only request's settlement, awaited for at most three seconds."""
        for _ in range(300):
            if rows := await self.rows("settle"):
                (row,) = rows
                return row
            await asyncio.sleep(0.01)
        raise AssertionError("nothing was settled within three seconds")

    async def prove(self) -> None:
        """Everything opened is settled, and every rule of the ledger holds."""
        await self.parts.books.close(3)
        await prove(self.parts.db, is_over=True)


def chat_body(**members: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}]} | members


def settings_for(home: Path, **members: Any) -> Settings:
    """`storage_seconds`: a busy test machine is no database that is away. No request is a control unless asked."""
    given: dict[str, Any] = {"home": home, "host": "127.0.0.1", "port": 0, "storage_seconds": 20, "holdout_rate": 0}
    return Settings(**given | members)


@asynccontextmanager
async def running(
    home: Path, engine: FakeEngine, start: StartEngine | None = None, **members: Any
) -> AsyncIterator[Gateway]:
    """`start`: for deployments with engines of their own; else all have this one."""
    settings = settings_for(home, **members)
    async with open_parts(settings, start or (lambda *_: nullcontext(engine))) as (parts, opened):
        credentials = opened.credentials
        async with serving(parts) as url, client(url, credentials.inference_key) as http:
            gateway = Gateway(url, credentials.inference_key, credentials.operator_key, parts, engine, http)
            yield gateway
        await gateway.prove()


@asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[str]:
    listener = listen("127.0.0.1", 0)
    server = Server(build_app(parts))
    task = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        yield url_of(listener)
    finally:
        server.should_exit = True
        await task


def client(url: str, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=20, trust_env=False)


def frames(text: str) -> list[Any]:
    """The data of an event stream; comments are left out, [DONE] stays a string."""
    data = [part.removeprefix("data: ") for part in text.split("\n\n") if part.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def comments(text: str) -> list[str]:
    return [part for part in text.split("\n\n") if part.startswith(":")]

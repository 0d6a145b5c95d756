"""Scripted engines for every deployment of a gateway: each replica has its own, and tests look at them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from gateway.deployments.host import EngineHost, Wanted
from gateway.supervisor import Phase
from storage.values.deployments import Deployment
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import Gateway, client, running

DEPLOYMENTS = "/admin/v1/deployments"


class Fakes:
    """Starts engines by script and remembers them by (name of the deployment, index of the replica)."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.engines: dict[tuple[str, int], FakeEngine] = {}
        self.ended: list[tuple[str, int]] = []
        self.phase: Phase = "ready"
        """Of engines that are started from now on."""

    @asynccontextmanager
    async def start(self, deployment: Deployment, index: int, wanted: Wanted) -> AsyncIterator[EngineHost]:
        key = (deployment.spec.name, index)
        engine = self.engines[key] = FakeEngine(self.script)
        engine.become(self.phase, f"It is {self.phase}.")
        engine.config = wanted()
        try:
            yield engine
        finally:
            self.ended.append(key)

    def of(self, name: str, index: int = 0) -> FakeEngine:
        return self.engines[name, index]


@asynccontextmanager
async def operated(home: Path, fakes: Fakes, **members: Any) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """A gateway whose deployments have engines of their own, and a client with its operator key."""
    async with (
        running(home, FakeEngine(), fakes.start, **members) as gateway,
        client(gateway.url, gateway.operator_key) as http,
    ):
        yield gateway, http


def folder_of(path: Path, name: str = "tiny") -> str:
    """A folder that looks like a model."""
    folder = path / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


async def made(http: httpx.AsyncClient, path: Path, **members: Any) -> dict[str, Any]:
    """A new deployment as the API tells it."""
    name = members.get("name", "tiny")
    response = await http.post(DEPLOYMENTS, json={"name": name, "model": folder_of(path, name)} | members)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


async def patch(http: httpx.AsyncClient, id: str, match: str | None = "*", **members: Any) -> httpx.Response:
    headers = {"if-match": match} if match else {}
    return await http.patch(f"{DEPLOYMENTS}/{id}", json={"reason": "a test"} | members, headers=headers)


async def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)

"""An engine that somebody else runs: what it says is what /readyz says."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.remote_engine import RemoteEngine
from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent, WorkerReady

pytestmark = pytest.mark.anyio


class Client:
    """Ready once `trouble` is gone."""

    def __init__(self, url: str, secret: str) -> None:
        self.told = (url, secret)
        self.trouble: EngineError | None = EngineError(503, "engine_starting", "The engine waits for torch.")
        self.closed = False

    async def ready(self) -> WorkerReady:
        if self.trouble:
            raise self.trouble
        return WorkerReady(model="tiny", max_model_len=64, vocab_size=9, fingerprint="f")

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        yield Accepted(prompt_tokens=3)

    async def abort(self, request_id: str) -> None: ...

    async def aclose(self) -> None:
        self.closed = True


async def until(engine: RemoteEngine, phase: str) -> str:
    async with asyncio.timeout(10):
        while engine.state.phase != phase:
            await asyncio.sleep(0.005)
    return engine.state.detail


async def test_it_waits_serves_and_says_so_when_the_engine_is_away_again() -> None:
    clients: list[Client] = []

    def connect(url: str, secret: str) -> Client:
        clients.append(Client(url, secret))
        return clients[-1]

    async with RemoteEngine("http://10.0.0.7:9", "a secret", connect, poll=0.005) as engine:
        assert await until(engine, "loading") == "The engine waits for torch."
        clients[0].trouble = None
        assert await until(engine, "ready") == "The engine is ready."
        request = GenerationRequest(request_id="r", prompt="x")
        assert [event async for event in engine.generate(request)] == [Accepted(prompt_tokens=3)]
        clients[0].trouble = EngineError(503, "engine_unavailable", "The engine cannot be reached.")
        assert await until(engine, "loading") == "The engine cannot be reached."
    assert clients[0].closed
    assert clients[0].told == ("http://10.0.0.7:9", "a secret")

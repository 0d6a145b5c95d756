"""An engine process that somebody else runs (SPECGATE_ENGINE_URL): asked, never started."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Self

from gateway.supervisor import FAILED, EngineProcessClient, EngineState, ask
from inference.client import HttpInferenceClient
from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent, WorkerLoad, WorkerReady
from inference.speculation_config import SpeculationConfig


class RemoteEngine:
    """Passes requests on, and keeps asking whether the engine is ready, so that /readyz can say so."""

    def __init__(
        self,
        url: str,
        secret: str,
        connect: Callable[[str, str], EngineProcessClient] = HttpInferenceClient,
        poll: float = 1.0,
    ) -> None:
        self._client = connect(url, secret)
        self._poll = poll
        self._task: asyncio.Task[None] | None = None
        self.state = EngineState("starting", "The engine was not asked yet.")

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_asking(), name="remote engine")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._client.aclose()

    def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        return self._client.generate(request)

    async def abort(self, request_id: str) -> None:
        await self._client.abort(request_id)

    async def ready(self) -> WorkerReady:
        """What the engine says of itself. Raises EngineError while it is not ready."""
        return await self._client.ready()

    async def load(self) -> WorkerLoad:
        return await self._client.load()

    async def set_speculation(self, config: SpeculationConfig) -> None:
        await self._client.set_speculation(config)

    async def _keep_asking(self) -> None:
        while True:
            problem = await ask(self._client)
            self.state = _state(problem)
            await asyncio.sleep(self._poll)


def _state(problem: EngineError | None) -> EngineState:
    """What a failed engine says of itself, with paths, is for operators."""
    if problem is None:
        return EngineState("ready", "The engine is ready.")
    if problem.failure.status == 500:
        return EngineState("loading", FAILED, cause=str(problem))
    return EngineState("loading", str(problem))

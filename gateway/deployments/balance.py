"""Several replicas as one engine.

A request goes to the ready replica with the least in flight. One that fails before its first event goes to another
replica, and the one that failed is passed over for a while; after the first event it is never repeated.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import cast

from gateway.deployments.replica import Replica
from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent, WorkerReady

MOST_TRIES = 3
"""A request that breaks its engine must not go through all of them."""
Events = AsyncGenerator[Accepted | TokenEvent, None]


class Balance:
    """Shares `replicas` with the generation that it speaks for, which may add and remove some."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self._where: dict[str, Replica] = {}

    async def generate(self, request: GenerationRequest) -> Events:
        """Close it early (`aclose`) to abort the request."""
        tried: list[Replica] = []
        while True:
            replica = self._choose(tried)
            has_begun = False
            try:
                with self._on(replica, request.request_id):
                    async with aclosing(cast(Events, replica.engine.generate(request))) as events:
                        async for event in events:
                            has_begun = True
                            yield event
                return
            except EngineError as error:
                if has_begun or error.failure.status < 500:
                    raise
                replica.cool()
                tried.append(replica)
                if len(tried) == MOST_TRIES or not self._others(tried):
                    raise
                request = request.model_copy(update={"attempt": request.attempt + 1})

    async def abort(self, request_id: str) -> None:
        if request_id in self._where:
            await self._where[request_id].engine.abort(request_id)

    async def ready(self) -> WorkerReady:
        return await self._choose([]).engine.ready()

    @contextmanager
    def _on(self, replica: Replica, request_id: str) -> Iterator[None]:
        self._where[request_id] = replica
        try:
            with replica.answering():
                yield
        finally:
            del self._where[request_id]

    def _others(self, tried: Sequence[Replica]) -> list[Replica]:
        return [replica for replica in self._replicas if replica.is_ready and replica not in tried]

    def _choose(self, tried: Sequence[Replica]) -> Replica:
        """The first of them where none is ready: it says why."""
        candidates = self._others(tried) or list(self._replicas)
        if not candidates:
            raise EngineError(503, "engine_unavailable", "The deployment has no engine now. Try again shortly.")
        return min(candidates, key=lambda replica: (replica.cools, replica.in_flight))

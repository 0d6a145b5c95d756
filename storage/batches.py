"""Group commit: what comes while one batch is written makes the next, so that one commit is waited for by all of it.

    idle:  an item is written at once, alone           busy:  items gather, and go together when the writer is back

Where a batch fails for what one of its items is, each is tried alone: an item that cannot be written loses itself, not
its neighbours. A storage that is away (StorageError) fails all of it at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from storage.errors import StorageError

T = TypeVar("T")
R = TypeVar("R")
MOST = 128
"""Items in a batch."""
PATIENCE = 1.0
"""Seconds after which the next batch no longer waits for one that hangs."""


class Batches(Generic[T, R]):
    """`write` answers for each item, in order."""

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._batches: set[asyncio.Task[None]] = set()

    async def add(self, item: T) -> R:
        """Whoever is cancelled here no longer waits; the item is written all the same. Raises what `write` does."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._run())
        return await answer

    async def close(self) -> None:
        """What is not written by now is not."""
        tasks = [*self._batches, *([self._writer] if self._writer else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, answer in self._waiting:
            answer.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            writing = asyncio.create_task(self._settle(batch))
            self._batches.add(writing)
            writing.add_done_callback(self._batches.discard)
            await asyncio.wait({writing}, timeout=PATIENCE)

    async def _settle(self, batch: Sequence[tuple[T, "asyncio.Future[R]"]]) -> None:
        try:
            results = await self._write([item for item, _ in batch])
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)
        except Exception as error:  # noqa: BLE001 - raised again to whoever waits
            if len(batch) > 1 and not isinstance(error, StorageError):
                for one in batch:
                    await self._settle([one])
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
        finally:
            for _, answer in batch:
                answer.cancel()  # nothing to one that was given

"""One read for all who ask the same at the same time.

When what was remembered runs out, a busy key's next hundred requests would each read it again and queue for a
connection: a database that only has much to do would look like one that is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedReads:
    """Reads under way, by what they read. A reader that is cancelled leaves the read to the others."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` returns or raises; begun at most as long ago as it takes."""
        task: asyncio.Task[T] | None = self._under_way.get(what)
        if task is None:
            task = asyncio.create_task(_as_coroutine(read))
            self._under_way[what] = task
            task.add_done_callback(lambda done: self._forget(what, done))
        return await asyncio.shield(task)

    def _forget(self, what: Hashable, done: "asyncio.Task[Any]") -> None:
        del self._under_way[what]
        if not done.cancelled():
            done.exception()  # seen, even where every reader has left


async def _as_coroutine(read: Callable[[], Awaitable[T]]) -> T:
    return await read()

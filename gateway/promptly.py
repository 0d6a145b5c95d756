"""Work that seldom has to wait: a timer is set only where it does.

A timer costs some ten microseconds, and a streamed answer would set two for each chunk.
"""

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def promptly(work: Awaitable[T], patience: float) -> T:
    """What `work` comes to; it may wait for `patience` seconds. Raises TimeoutError."""
    begun = Begun(work)
    if begun.waits:
        async with asyncio.timeout(patience):
            return await begun.rest()
    return begun.result


class Begun(Generic[T]):
    """Work, as far as it comes without waiting."""

    def __init__(self, work: Awaitable[T]) -> None:
        self._steps = work.__await__()
        self.waits = True
        self.result: T
        """Once it waits for nothing."""
        try:
            self._awaited = next(self._steps)
        except StopIteration as ended:
            self.waits, self.result = False, ended.value

    @coroutine
    def rest(self) -> Generator[Any, Any, T]:
        """To be awaited where it waits: by whichever task."""
        awaited = self._awaited
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the work is told, and decides
                try:
                    awaited = self._steps.throw(error)
                except StopIteration as ended:
                    done: T = ended.value
                    return done
            else:
                return (yield from self._steps)

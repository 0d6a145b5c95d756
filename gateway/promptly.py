"""Work that seldom has to wait: a timer is set only where it does.

A timer costs some ten microseconds, and a streamed answer would set two for each chunk.
"""

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def promptly(work: Awaitable[T], patience: float) -> T:
    """What `work` comes to; it may wait for `patience` seconds. Raises TimeoutError."""
    steps = work.__await__()
    try:
        awaited = next(steps)
    except StopIteration as ended:
        done: T = ended.value
        return done
    async with asyncio.timeout(patience):
        return await _rest(steps, awaited)


@coroutine
def _rest(steps: Generator[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Of what has begun, and told that it awaits this."""
    while True:
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 - the work is told, and decides
            try:
                awaited = steps.throw(error)
            except StopIteration as ended:
                done: T = ended.value
                return done
        else:
            return (yield from steps)

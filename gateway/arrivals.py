"""What comes from elsewhere, in order, for one reader.

A queue with a deadline whose timer outlives the wait: a reader that is served in time again and again moves the
deadline, and the timer looks at it when it rings. Setting one for each wait would cost more than the wait.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Arrivals(Generic[T]):
    def __init__(self) -> None:
        self._come: deque[T] = deque()
        self._reader: asyncio.Future[bool] | None = None
        self._until: float | None = None
        self._patience: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._come)

    @property
    def is_awaited(self) -> bool:
        return self._reader is not None and not self._reader.done()

    def put(self, one: T) -> None:
        self._come.append(one)

    def wake(self) -> None:
        """The reader looks."""
        self._wake(True)

    def postpone(self) -> None:
        """The reader goes on waiting, as if it had looked: what came was taken by somebody else."""
        if self._patience is not None:
            self._until = asyncio.get_running_loop().time() + self._patience

    def first(self) -> T:
        """Where there is one."""
        return self._come[0]

    def take(self) -> T:
        """The first, where there is one."""
        return self._come.popleft()

    async def any(self, patience: float | None) -> bool:
        """Returns when it is woken: True; or after `patience` seconds: False."""
        if self._come:
            return True
        loop = asyncio.get_running_loop()
        self._reader = loop.create_future()
        self._patience, self._until = patience, None if patience is None else loop.time() + patience
        self._ring()
        try:
            return await self._reader
        finally:
            self._reader = None

    def close(self) -> None:
        """No reader comes any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        if self._until is None:
            return
        if self._timer is not None and self._timer.when() > self._until:
            self.close()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._until, self._rung)

    def _rung(self) -> None:
        self._timer = None
        if self._reader is None or self._until is None:
            return
        if asyncio.get_running_loop().time() < self._until:
            self._ring()
        else:
            self._wake(False)

    def _wake(self, has_come: bool) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(has_come)

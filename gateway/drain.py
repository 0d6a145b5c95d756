"""Going out of service: no new work, open answers may finish until a deadline, then they are cut."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway.errors import Draining


class Drain:
    """One for the process. `cut` is set when open answers must end now."""

    def __init__(self) -> None:
        self.has_begun = False
        self.cut = asyncio.Event()
        self.num_open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def refuse_new(self) -> None:
        """Raises Draining once it has begun."""
        if self.has_begun:
            raise Draining

    @contextmanager
    def answering(self) -> Iterator[None]:
        """An answer is open while inside."""
        self.num_open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.num_open -= 1
            if not self.num_open:
                self._idle.set()

    async def run(self, seconds: float, settle_seconds: float) -> None:
        """Returns when nothing is open any more, or `settle_seconds` after the cut."""
        self.has_begun = True
        await self._idle_or(seconds)
        self.cut.set()
        await self._idle_or(settle_seconds)

    async def _idle_or(self, seconds: float) -> None:
        """Until nothing is open, it is cut early, or time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

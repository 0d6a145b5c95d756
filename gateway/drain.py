"""Going out of service: balancers are told, new work is refused, open answers may finish until a deadline, then end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway.errors import Draining


class Drain:
    """One for the process. `cut` is set when open answers must end now."""

    def __init__(self) -> None:
        self.is_leaving = False
        """Whoever asks whether it is ready is told that it is not."""
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

    async def run(self, seconds: float, settle_seconds: float, notice: float = 0.0) -> None:
        """Returns when nothing is open any more, or `settle_seconds` after the cut. New work is refused after
        `notice`, time for balancers to look elsewhere."""
        self.is_leaving = True
        await _within(notice, self.cut)
        self.has_begun = True
        await _within(seconds, self._idle)
        self.cut.set()
        await _within(settle_seconds, self._idle)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()

"""One engine of a deployment, looked at all the time: how busy it is, and whether it runs the drafters it should.

An engine that was away gets the newest configuration when it is back; one that refuses it keeps its old one, and
`refusal` says why.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from gateway.deployments.host import EngineHost, Wanted
from inference.protocol import EngineError, WorkerLoad, WorkerReady

LOOK_SECONDS = 0.5
FIRST_LOOK_SECONDS = 0.05
"""While it is not there."""
ANSWER_SECONDS = 8.0
MOST_AHEAD = 10
"""Another gateway may know of a change first, but not for so many looks."""
COOL_SECONDS = 5.0
"""How long a replica that lost a request is passed over while another can serve."""


class Replica:
    """`engine` is entered and left by whoever made it."""

    def __init__(
        self,
        index: int,
        engine: EngineHost,
        wanted: Wanted,
        look: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.index, self.engine = index, engine
        self.in_flight = 0
        self.facts: WorkerReady | None = None
        self.load: WorkerLoad | None = None
        """None: it is not there."""
        self.refusal: str | None = None
        self._wanted, self._look, self._clock = wanted, look, clock
        self._cool_until = 0.0
        self._ahead = 0
        """Looks in a row that found newer drafters than the database has."""
        self._news = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self.engine.state.phase == "ready"

    @property
    def is_known(self) -> bool:
        """Whether it is there and was looked at since."""
        return self.is_ready and (self.load is not None or self.refusal is not None)

    @property
    def cools(self) -> bool:
        return self._clock() < self._cool_until

    @property
    def is_current(self) -> bool:
        """Whether it runs the drafters it should, or newer ones that another gateway told it."""
        wanted = self._wanted()
        is_same = self.load is not None and self.load.config_origin == wanted.origin
        return self.load is not None and is_same and self.load.config_version >= wanted.version

    def cool(self) -> None:
        self._cool_until = self._clock() + COOL_SECONDS

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def nudge(self) -> None:
        """Something changed: look now."""
        self._news.set()

    async def keep_looking(self) -> None:
        while True:
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look if self.load else min(self._look, FIRST_LOOK_SECONDS)):
                    await self._news.wait()
            self._news.clear()

    async def look(self) -> None:
        if not self.is_ready:
            self.load = self.facts = self.refusal = None
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.facts = self.facts or await self.engine.ready()
                self.load = await self.engine.load()
                await self._configure()
            self.refusal = None
        except EngineError as error:
            self.refusal = str(error)
        except TimeoutError:
            self.refusal = f"It said nothing for {ANSWER_SECONDS:.0f} s."

    async def _configure(self) -> None:
        wanted = self._wanted()
        if not self.is_current:
            await self.engine.set_speculation(wanted)
            self.load = await self.engine.load()
        assert self.load is not None
        self._ahead = self._ahead + 1 if self.load.config_version > wanted.version else 0
        if self._ahead > MOST_AHEAD:
            told = f"It runs version {self.load.config_version} of its drafters, and the database has {wanted.version}"
            raise EngineError(409, "engine_ahead", f"{told}: if the database was set back, restart it.")

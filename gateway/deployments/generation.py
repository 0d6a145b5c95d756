"""The replicas of one load of a deployment: started together, grown and shrunk, drained at the end.

What a load is made of (model, device, sizes) never changes in it; another load is another generation beside it.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from gateway.deployments.balance import Balance
from gateway.deployments.host import StartEngine, Wanted
from gateway.deployments.replica import Replica
from gateway.routing import Fingerprint
from gateway.supervisor import EngineState
from storage.values.deployments import Deployment

POLL_SECONDS = 0.05


@dataclass(eq=False)
class Member:
    """A replica, what holds its engine, and the task that looks at it."""

    replica: Replica
    stack: AsyncExitStack
    looking: asyncio.Task[None]


@dataclass(eq=False)
class Generation:
    deployment: Deployment
    """As it was when the engines were asked for."""
    start: StartEngine
    wanted: Wanted
    replicas: list[Replica] = field(default_factory=list)
    """In order of their index."""
    _members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Balance(self.replicas)
        self.fingerprint = Fingerprint(self.client)

    @property
    def is_ready(self) -> bool:
        """Whether every engine is there."""
        return bool(self.replicas) and all(replica.is_ready for replica in self.replicas)

    @property
    def failures(self) -> list[EngineState]:
        """Of the engines that were given up."""
        return [one.engine.state for one in self.replicas if one.engine.state.phase == "failed"]

    @property
    def in_flight(self) -> int:
        return sum(member.replica.in_flight for member in self._members)

    async def grow(self, count: int) -> None:
        while len(self.replicas) < count:
            index = len(self.replicas)
            stack = AsyncExitStack()
            engine = await stack.enter_async_context(self.start(self.deployment, index, self.wanted))
            replica = Replica(index, engine, self.wanted)
            self._members.append(Member(replica, stack, asyncio.create_task(replica.keep_looking())))
            self.replicas.append(replica)

    async def shrink(self, count: int, drain_seconds: float) -> None:
        """The last ones get no new requests from now on, and end when theirs are answered or `drain_seconds` passed."""
        leaving = [member for member in self._members if member.replica in self.replicas[count:]]
        del self.replicas[count:]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_seconds):
                await self._idle(leaving)
        await asyncio.gather(*map(self._end, leaving))

    async def _idle(self, members: Sequence[Member]) -> None:
        while any(member.replica.in_flight for member in members):
            await asyncio.sleep(POLL_SECONDS)

    async def _end(self, member: Member) -> None:
        member.looking.cancel()
        await asyncio.gather(member.looking, return_exceptions=True)
        await member.stack.aclose()
        if member in self._members:
            self._members.remove(member)

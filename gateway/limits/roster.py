"""This gateway says that it lives, counts those that do, and settles what dead ones left."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.admission import Admission
from storage import Database, StorageError
from storage.clock import database_clock
from storage.limits.gateways import Gateways
from storage.limits.reaper import settle_dead

log = logging.getLogger("specgate.gateways")
BEATS = 3
"""So many in the length of a lease."""


class Roster:
    """`owner` names this process. A lease that is not renewed for `lease_seconds` is that of a dead gateway."""

    def __init__(self, db: Database, owner: str, lease_seconds: float) -> None:
        self._db, self._owner, self._lease_seconds = db, owner, lease_seconds
        self._num_live = 1
        self._steady_since: float | None = None

    def num_live(self) -> int:
        """As counted last."""
        return self._num_live

    async def join(self) -> None:
        """Before the first request, so that no share is counted without this gateway."""
        await self._renew()

    @asynccontextmanager
    async def beating(self, admission: Admission) -> AsyncIterator[None]:
        """Alive while inside."""
        beats = asyncio.create_task(self._beat(admission))
        try:
            yield
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)

    async def leave(self) -> None:
        """What is left of this gateway, if anything, is for the others to settle."""
        with suppress(StorageError):
            async with self._db.unit() as session:
                await Gateways(session).renew(self._owner, await database_clock(session), 0.0)

    async def _beat(self, admission: Admission) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / BEATS)
            try:
                await self._renew()
                await admission.heartbeat()
                await self._settle_dead()
            except StorageError as error:
                self._steady_since = None
                log.warning("lease not renewed", extra={"fields": {"error": type(error).__name__}})

    async def _renew(self) -> None:
        async with self._db.unit() as session:
            gateways, now = Gateways(session), await database_clock(session)
            await gateways.renew(self._owner, now, self._lease_seconds)
            self._num_live = max(1, await gateways.num_live(now))
        self._steady_since = self._steady_since or time.monotonic()

    async def _settle_dead(self) -> None:
        """After the database was away, the others get the length of a lease to say that they live."""
        assert self._steady_since is not None
        if time.monotonic() - self._steady_since < self._lease_seconds:
            return
        async with self._db.unit() as session:
            settled = await settle_dead(session, await database_clock(session))
        if settled:
            log.warning("settled what dead gateways left", extra={"fields": {"settled": settled}})

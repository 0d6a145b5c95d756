"""Whose limits apply to a request: read from the database, remembered for a second."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.auth import Principal
from gateway.errors import StorageUnavailable
from gateway.shared_reads import SharedReads
from storage import Database, StorageAway
from storage.limits.rows import LimitRows
from storage.limits.values import DIMENSIONS, Scope, Subject

REMEMBER_SECONDS = 1.0
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Terms:
    subjects: tuple[Subject, ...]
    """Outermost first."""

    @property
    def limit_any(self) -> bool:
        return any(subject.limits.limits_any(*DIMENSIONS) for subject in self.subjects)


class TermsOf:
    """Finds the terms of a principal."""

    def __init__(self, db: Database, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._db, self._patience, self._clock = db, patience, clock
        self._known: dict[str, tuple[float, Terms]] = {}
        self._reads = SharedReads()

    async def get(self, principal: Principal) -> Terms:
        """Raises StorageUnavailable."""
        until, terms = self._known.get(principal.key_id, (0.0, None))
        if terms is None or self._clock() >= until:
            terms = await self._reads.read(principal.key_id, lambda: self._look_up(principal))
        return terms

    async def _look_up(self, principal: Principal) -> Terms:
        asked = self._clock()
        terms = await self._read(principal)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[principal.key_id] = asked + REMEMBER_SECONDS, terms
        return terms

    async def _read(self, principal: Principal) -> Terms:
        try:
            async with asyncio.timeout(self._patience), self._db.view() as session:
                return Terms(await LimitRows(session).of(levels(principal)))
        except (StorageAway, TimeoutError) as error:
            raise StorageUnavailable from error


def levels(principal: Principal) -> list[tuple[Scope, str]]:
    """All of them apply."""
    return [("tenant", principal.tenant_id), ("project", principal.project_id), ("key", principal.key_id)]

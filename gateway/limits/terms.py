"""Whose limits apply to a request, and what its tokens cost: read from the database, remembered for a second."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.auth import Principal
from gateway.errors import StorageUnavailable
from gateway.shared_reads import SharedReads
from storage import Database, StorageAway
from storage.limits.prices import Prices
from storage.limits.rows import LimitRows
from storage.limits.values import DIMENSIONS, Price, Scope, Subject

REMEMBER_SECONDS = 1.0
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Terms:
    subjects: tuple[Subject, ...]
    """Outermost first."""
    price: Price

    @property
    def limit_any(self) -> bool:
        return any(subject.limits.limits_any(*DIMENSIONS) for subject in self.subjects)


class TermsOf:
    """Finds the terms of a principal."""

    def __init__(self, db: Database, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._db, self._patience, self._clock = db, patience, clock
        self._known: dict[tuple[str, str], tuple[float, Terms]] = {}
        self._reads = SharedReads()

    async def get(self, principal: Principal, model: str) -> Terms:
        """Raises StorageUnavailable."""
        place = principal.key_id, model
        until, terms = self._known.get(place, (0.0, None))
        if terms is None or self._clock() >= until:
            terms = await self._reads.read(place, lambda: self._look_up(principal, model))
        return terms

    async def _look_up(self, principal: Principal, model: str) -> Terms:
        asked = self._clock()
        terms = await self._read(principal, model)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[principal.key_id, model] = asked + REMEMBER_SECONDS, terms
        return terms

    async def _read(self, principal: Principal, model: str) -> Terms:
        try:
            async with asyncio.timeout(self._patience), self._db.view() as session:
                subjects = await LimitRows(session).of(levels(principal))
                return Terms(subjects, await Prices(session).get(model))
        except (StorageAway, TimeoutError) as error:
            raise StorageUnavailable from error


def levels(principal: Principal) -> list[tuple[Scope, str]]:
    """All of them apply."""
    return [("tenant", principal.tenant_id), ("project", principal.project_id), ("key", principal.key_id)]

"""Budgets alone, each step in a unit of its own: for a limiter that counts the rest elsewhere."""

from collections.abc import Sequence

from storage.clock import Clock, database_clock
from storage.database import Database
from storage.limits.budgets import Budgets
from storage.limits.locks import hold
from storage.limits.rules import over
from storage.limits.usage import OF_BUDGETS, usages
from storage.limits.values import BUDGETS, Amounts, Claim, Reservation, Subject, Usage, Verdict
from storage.money import Used


class HeldBudgets:
    """Asks the database only for those who have a budget."""

    def __init__(self, db: Database, clock: Clock = database_clock) -> None:
        self._db, self._clock = db, clock

    async def hold(self, claim: Claim, now: float) -> Verdict:
        if not _are_limited(claim.subjects):
            return Verdict(now, [Usage()] * len(claim.subjects))
        async with self._db.unit() as session:
            await hold(session, claim.subjects)
            now = await self._clock(session)
            found = await usages(session, claim.subjects, now, OF_BUDGETS)
            broken = over(claim.subjects, claim.needs, found, BUDGETS)
            if broken is None:
                await Budgets(session).hold(claim, now)
        return Verdict(now, found, broken)

    async def correct(self, reservation: Reservation, by: Amounts) -> Verdict | None:
        """Increases must fit; a verdict only where one does not."""
        subjects = reservation.claim.subjects
        if not _are_limited(subjects):
            return None
        async with self._db.unit() as session:
            await hold(session, subjects)
            now = await self._clock(session)
            found = await usages(session, subjects, now, OF_BUDGETS)
            if broken := over(subjects, by, found, BUDGETS):
                return Verdict(now, found, broken)
            await Budgets(session).correct(reservation, by)
        return None

    async def settle(self, claim: Claim, used: Used) -> None:
        if _are_limited(claim.subjects):
            async with self._db.unit() as session:
                await Budgets(session).settle(claim.id, used)

    async def usages(self, subjects: Sequence[Subject], now: float) -> list[Usage]:
        if not _are_limited(subjects):
            return [Usage()] * len(subjects)
        async with self._db.view() as session:
            return await usages(session, subjects, await self._clock(session), OF_BUDGETS)


def _are_limited(subjects: Sequence[Subject]) -> bool:
    return any(subject.limits.limits_any(*BUDGETS) for subject in subjects)

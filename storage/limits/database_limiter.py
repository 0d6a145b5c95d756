"""Everything in the database: one transaction decides and holds."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from storage.clock import Clock, database_clock
from storage.database import Database, Session
from storage.limits.budgets import Budgets
from storage.limits.locks import hold
from storage.limits.rates import Rates
from storage.limits.rules import over, refusal, standings, with_claim
from storage.limits.usage import usages
from storage.limits.values import (
    DIMENSIONS,
    RATES,
    Amounts,
    Claim,
    Dimension,
    Refusal,
    Reservation,
    Standing,
    Subject,
    Usage,
    Used,
)


class DatabaseLimiter:
    """Implements `Limiter`. A lease that is not renewed ends after `lease_seconds`."""

    def __init__(self, db: Database, lease_seconds: float, clock: Clock = database_clock) -> None:
        self._db, self._lease_seconds, self._clock = db, lease_seconds, clock

    async def reserve(self, claim: Claim) -> Reservation | Refusal:
        async with self._db.unit() as session:
            await hold(session, claim.subjects)
            now = await self._clock(session)
            found = await usages(session, claim.subjects, now)
            if broken := over(claim.subjects, claim.needs, found):
                return await self._refusal(session, claim, claim.needs, found, broken, now)
            await Rates(session).charge(claim, now, now + self._lease_seconds)
            await Budgets(session).hold(claim, now)
        return Reservation(claim, now, standings(claim.subjects, with_claim(claim, found, now), now))

    async def adjust(self, reservation: Reservation, input_tokens: int, output_tokens: int) -> Reservation | Refusal:
        claim = replace(reservation.claim, input_tokens=input_tokens, output_tokens=output_tokens)
        by = claim.needs - reservation.claim.needs
        async with self._db.unit() as session:
            await hold(session, claim.subjects)
            now = await self._clock(session)
            if any(by.of(dimension) > 0 for dimension in DIMENSIONS):
                found = await usages(session, claim.subjects, now)
                if broken := over(claim.subjects, by, found):
                    return await self._refusal(session, claim, by, found, broken, now)
            await Rates(session).correct(reservation, by)
            await Budgets(session).correct(reservation, by)
        return replace(reservation, claim=claim)

    async def release(self, reservation: Reservation, used: Used | None) -> None:
        claim = reservation.claim
        async with self._db.unit() as session:
            await hold(session, claim.subjects)
            rates = Rates(session)
            await rates.end(claim)
            await rates.correct(reservation, refund(claim, used))
            await Budgets(session).settle(claim.id, used or Used())

    async def heartbeat(self, reservations: Collection[Reservation]) -> None:
        claims = [reservation.claim for reservation in reservations]
        subjects = {subject.name: subject for claim in claims for subject in claim.subjects}
        async with self._db.unit() as session:
            await hold(session, list(subjects.values()))
            now = await self._clock(session)
            rates = Rates(session)
            await rates.lease(claims, now + self._lease_seconds)
            await rates.sweep(now)

    async def standings(self, subjects: Sequence[Subject]) -> tuple[Standing, ...]:
        async with self._db.view() as session:
            now = await self._clock(session)
            return standings(subjects, await usages(session, subjects, now), now)

    async def _refusal(
        self,
        session: Session,
        claim: Claim,
        needs: Amounts,
        found: Sequence[Usage],
        broken: tuple[int, Dimension],
        now: float,
    ) -> Refusal:
        index, dimension = broken
        rate = next((rate for rate in RATES if rate == dimension), None)
        charges = await Rates(session).charges(claim.subjects[index], rate, now) if rate else ()
        return refusal(claim.subjects, needs, found, broken, charges, now)


def refund(claim: Claim, used: Used | None) -> Amounts:
    """By how much the rates were charged wrongly; a request that never ran gives itself back too."""
    if used is None:
        return Amounts() - claim.needs
    ran = Amounts(0, 1, used.input_tokens, used.output_tokens)
    return ran - claim.needs

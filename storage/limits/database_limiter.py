"""Everything in the database: one transaction decides and holds."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from storage.clock import Clock, database_clock
from storage.database import Database, Session
from storage.errors import StorageError
from storage.limits.budgets import Budgets
from storage.limits.lane import Lane
from storage.limits.locks import hold
from storage.limits.rates import Rates
from storage.limits.rules import over, refund, refusal, standings, with_claim
from storage.limits.usage import usages
from storage.limits.values import (
    BUDGETS,
    DIMENSIONS,
    RATES,
    Amounts,
    Claim,
    Refusal,
    Reservation,
    Standing,
    Subject,
    Verdict,
)
from storage.money import Used

T = TypeVar("T")
Work = Callable[[Session], Coroutine[Any, Any, T]]
SOON, RETRY = 0.005, 1.0
"""Seconds."""


class DatabaseLimiter:
    """Implements `Limiter`. A lease that is not renewed ends after `lease_seconds`."""

    def __init__(
        self, db: Database, lease_seconds: float, clock: Clock = database_clock, lane: Lane | None = None
    ) -> None:
        self._db, self._lease_seconds, self._clock, self._lane = db, lease_seconds, clock, lane
        self._ending: list[Work[bool]] = []
        """Releases, soon."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_degraded(self) -> bool:
        return False

    async def reserve(self, claim: Claim) -> Reservation | Refusal:
        return await self._run(partial(self._reserve, claim))

    def reserve_now(self, claim: Claim) -> Reservation | Refusal | None:
        return self._now(partial(self._reserve, claim))

    async def adjust(self, reservation: Reservation, input_tokens: int, output_tokens: int) -> Reservation | Refusal:
        claim = replace(reservation.claim, input_tokens=input_tokens, output_tokens=output_tokens)
        return await self._run(partial(self._adjust, reservation, claim))

    async def release(self, reservation: Reservation, used: Used | None) -> None:
        await self._run(partial(self._release, reservation, used))

    def release_now(self, reservation: Reservation, used: Used | None) -> bool:
        """Done with whatever is decided next, and soon in any case: most requests end just before another begins."""
        if self._lane is None:
            return False
        self._ending.append(partial(self._release, reservation, used))
        self._end_in(SOON)
        return True

    def close(self) -> None:
        """What was to be released soon is released now, if it can be."""
        with suppress(StorageError):
            self._now(_nothing)
        if self._timer is not None:
            self._timer.cancel()

    async def heartbeat(self, reservations: Collection[Reservation]) -> None:
        claims = [reservation.claim for reservation in reservations]
        await self._run(partial(self._heartbeat, claims))

    async def standings(self, subjects: Sequence[Subject]) -> tuple[Standing, ...]:
        async with self._db.view() as session:
            now = await self._clock(session)
            return standings(subjects, await usages(session, subjects, now), now)

    async def _run(self, work: Work[T]) -> T:
        if (done := self._now(work)) is not None:
            return done
        with self._with_endings(work) as all_of_it:
            async with self._db.unit() as session:
                return await all_of_it(session)

    def _now(self, work: Work[T]) -> T | None:
        """None where it would have to wait, and nothing was done."""
        if self._lane is None:
            return None
        with self._with_endings(work) as all_of_it:
            done = self._lane.run(all_of_it)
            if done is None:
                raise _Busy
            return done
        return None

    @contextmanager
    def _with_endings(self, work: Work[T]) -> Iterator[Work[T]]:
        """`work` after what was to be released soon; that is kept where the block fails."""
        ending, self._ending = self._ending, []

        async def all_of_it(session: Session) -> T:
            for end in ending:
                await end(session)
            return await work(session)

        try:
            yield all_of_it
        except BaseException as error:
            self._ending = ending + self._ending
            if not isinstance(error, _Busy):
                raise

    def _end(self) -> None:
        self._timer = None
        if not self._ending:
            return
        try:
            is_done = self._now(_nothing)
        except StorageError:
            self._end_in(RETRY)
        else:
            if not is_done:
                self._end_in(SOON)

    def _end_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    async def _reserve(self, claim: Claim, session: Session) -> Reservation | Refusal:
        await hold(session, claim.subjects)
        now = await self._clock(session)
        found = await usages(session, claim.subjects, now)
        if broken := over(claim.subjects, claim.needs, found):
            return await self._refusal(session, claim, claim.needs, Verdict(now, found, broken))
        await Rates(session).charge(claim, now, now + self._lease_seconds)
        await Budgets(session).hold(claim, now)
        return Reservation(claim, now, standings(claim.subjects, with_claim(claim, found, now), now))

    async def _adjust(self, reservation: Reservation, claim: Claim, session: Session) -> Reservation | Refusal:
        by = claim.needs - reservation.claim.needs
        await hold(session, claim.subjects)
        now = await self._clock(session)
        if any(by.of(dimension) > 0 for dimension in DIMENSIONS):
            found = await usages(session, claim.subjects, now)
            if broken := over(claim.subjects, by, found):
                return await self._refusal(session, claim, by, Verdict(now, found, broken))
        await Rates(session).correct(reservation, by)
        await Budgets(session).correct(reservation, by)
        return replace(reservation, claim=claim)

    async def _release(self, reservation: Reservation, used: Used | None, session: Session) -> bool:
        claim = reservation.claim
        await hold(session, claim.subjects)
        rates = Rates(session)
        await rates.end(claim)
        await rates.correct(reservation, refund(claim, used))
        if any(claim.limited_in(*BUDGETS)):
            await Budgets(session).settle(claim.id, used or Used())
        return True

    async def _heartbeat(self, claims: Sequence[Claim], session: Session) -> bool:
        subjects = {subject.name: subject for claim in claims for subject in claim.subjects}
        await hold(session, list(subjects.values()))
        now = await self._clock(session)
        rates = Rates(session)
        await rates.lease(claims, now + self._lease_seconds)
        await rates.sweep(now)
        return True

    async def _refusal(self, session: Session, claim: Claim, needs: Amounts, verdict: Verdict) -> Refusal:
        assert verdict.broken is not None
        index, dimension = verdict.broken
        rate = next((rate for rate in RATES if rate == dimension), None)
        charges = await Rates(session).charges(claim.subjects[index], rate, verdict.now) if rate else ()
        return refusal(claim.subjects, needs, replace(verdict, charges=charges))


async def _nothing(session: Session) -> bool:
    return True


class _Busy(Exception):
    """Another holds the write lock."""

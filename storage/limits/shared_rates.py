"""Concurrency and rates that gateways share through Redis, and what each does while Redis is away.

    shared ──(no answers)──► alone ──(it answers again)──► returning ──(settle_seconds later)──► shared

alone      each gateway enforces its share of every limit against what it charged itself in the last minute, Redis or
           not, and its share of what Redis last said was left
returning  Redis was told what it does not know; the share is enforced as well, until every gateway has had the time
           to tell what it let pass. So nobody finds an emptied Redis and takes the whole limit once more.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal

from storage.limits.own_rates import OwnRates
from storage.limits.redis_rates import MemoryLost, RatesAway, RedisRates
from storage.limits.rules import refusal, with_claim
from storage.limits.values import TRAFFIC, Amounts, Claim, Refusal, Reservation, Subject, Verdict

log = logging.getLogger("specgate.limits")
FAILURES = 3
"""So many in a row, and Redis is asked only once in PROBE_SECONDS."""
PROBE_SECONDS = 0.5
Mode = Literal["shared", "alone", "returning"]


class SharedRates:
    """`num_gateways`: how many live now. `clock`: unix seconds, for what is charged alone."""

    def __init__(
        self,
        redis: RedisRates,
        num_gateways: Callable[[], int],
        settle_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis, self._num_gateways, self._clock = redis, num_gateways, clock
        self._settle_seconds = settle_seconds
        self._own = OwnRates()
        self._is_alone = True
        self._told_epoch: str | None = None
        """The life of Redis that knows what this gateway charged."""
        self._failures = 0
        self._probe_at = self._settled_at = 0.0

    @property
    def mode(self) -> Mode:
        if self._is_alone:
            return "alone"
        return "returning" if time.monotonic() < self._settled_at else "shared"

    async def start(self) -> None:
        """Who finds Redis at its start has let nothing pass that Redis does not know."""
        if await self._reaches_redis():
            self._settled_at = 0.0

    async def reserve(self, claim: Claim) -> Verdict | Refusal:
        """The verdict has the usages before it."""
        # Once more where Redis lost its memory, which it is told again first.
        for _ in range(2):
            if not await self._reaches_redis():
                break
            if self.mode == "returning" and (refused := self._over_share(claim.subjects, claim.needs)):
                return refused
            if verdict := await self._asked(lambda: self._redis.reserve(claim)):
                return self._reserved(claim, verdict)
            if not self._is_alone:
                break
        return self._reserve_alone(claim)

    async def change(self, reservation: Reservation, by: Amounts, *, ends: bool = False) -> Refusal | None:
        """Increases must fit. What Redis cannot be told now, it is told later."""
        subjects = reservation.claim.subjects
        grows = any(by.of(dimension) > 0 for dimension in TRAFFIC)
        if grows and self.mode != "shared" and (refused := self._over_share(subjects, by)):
            return refused
        verdict = await self._asked(lambda: self._redis.change(reservation, by, ends))
        if verdict and verdict.broken:
            return refusal(subjects, by, verdict)
        self._own.correct(reservation, by, is_sent=verdict is not None)
        if ends:
            self._own.end(reservation.claim)
        return None

    async def heartbeat(self, claims: Collection[Claim]) -> None:
        """These run. Also tells what a single failure kept back."""
        self._own.sweep(self._clock())
        if not await self._reaches_redis():
            return
        unsent = self._own.take_unsent()
        if await self._asked(lambda: self._redis.restore(claims, unsent)) is None:
            self._own.keep_unsent(unsent)

    async def look(self, subjects: Sequence[Subject]) -> Verdict:
        verdict = await self._asked(lambda: self._redis.look(subjects))
        now = self._clock()
        return verdict or Verdict(now, self._own.usages(subjects, now))

    def terms(self, subjects: Sequence[Subject]) -> list[Subject]:
        """The limits as they are enforced now."""
        if not self._is_alone:
            return list(subjects)
        parts = self._num_gateways()
        return [replace(subject, limits=subject.limits.share(parts)) for subject in subjects]

    async def close(self) -> None:
        await self._redis.close()

    def _reserved(self, claim: Claim, verdict: Verdict) -> Verdict | Refusal:
        if verdict.broken:
            self._own.saw(claim.subjects, verdict.usages, verdict.now)
            return refusal(claim.subjects, claim.needs, verdict)
        self._own.charge(claim, verdict.now, is_sent=True)
        self._own.saw(claim.subjects, with_claim(claim, verdict.usages, verdict.now), verdict.now)
        return verdict

    def _reserve_alone(self, claim: Claim) -> Verdict | Refusal:
        now, parts = self._clock(), self._num_gateways()
        refused = self._over_share(claim.subjects, claim.needs)
        if refused := refused or self._own.over_rest(claim.subjects, claim.needs, now, parts):
            return refused
        before = self._own.usages(claim.subjects, now)
        self._own.charge(claim, now, is_sent=False)
        return Verdict(now, before)

    def _over_share(self, subjects: Sequence[Subject], needs: Amounts) -> Refusal | None:
        return self._own.over_share(subjects, needs, self._clock(), self._num_gateways())

    async def _asked(self, asking: Callable[[], Awaitable[Verdict]]) -> Verdict | None:
        """None where there is no answer."""
        if self._is_alone:
            return None
        try:
            verdict = await asking()
        except MemoryLost:
            self._go_alone(probe_at=0.0)
        except RatesAway:
            self._failures += 1
            if self._failures >= FAILURES:
                self._go_alone(probe_at=time.monotonic() + PROBE_SECONDS)
        else:
            self._failures = 0
            return verdict
        return None

    async def _reaches_redis(self) -> bool:
        """Whether it may be asked; while alone, one request in a while tries."""
        if not self._is_alone:
            return True
        if time.monotonic() < self._probe_at:
            return False
        self._probe_at = time.monotonic() + PROBE_SECONDS
        try:
            await self._return()
        except (MemoryLost, RatesAway):
            return False
        return True

    async def _return(self) -> None:
        epoch = await self._redis.connect()
        unsent = self._own.take_unsent()
        try:
            knows_us = epoch == self._told_epoch
            await self._redis.restore(self._own.running, unsent if knows_us else self._own.charges())
        except BaseException:
            self._own.keep_unsent(unsent)
            raise
        self._told_epoch, self._is_alone, self._failures = epoch, False, 0
        self._settled_at = time.monotonic() + self._settle_seconds
        log.info("redis answers", extra={"fields": {"remembers": knows_us}})

    def _go_alone(self, probe_at: float) -> None:
        if not self._is_alone:
            log.warning("redis is away: each gateway enforces its share", extra={"fields": {}})
        self._is_alone, self._probe_at = True, probe_at

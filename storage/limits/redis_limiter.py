"""Concurrency and rates in Redis, budgets in the database: what the second refuses, the first gives back."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from storage.limits.held_budgets import HeldBudgets
from storage.limits.rules import refund, refusal, standings, with_claim
from storage.limits.shared_rates import SharedRates
from storage.limits.values import TRAFFIC, Claim, Refusal, Reservation, Standing, Subject, Usage
from storage.money import Used


class RedisLimiter:
    """Implements `Limiter`."""

    def __init__(self, rates: SharedRates, budgets: HeldBudgets) -> None:
        self._rates, self._budgets = rates, budgets

    @property
    def is_degraded(self) -> bool:
        return self._rates.mode != "shared"

    async def reserve(self, claim: Claim) -> Reservation | Refusal:
        rates = await self._rates.reserve(claim)
        if isinstance(rates, Refusal):
            return replace(rates, standings=tuple(s for s in rates.standings if s.dimension in TRAFFIC))
        reservation = Reservation(claim, rates.now)
        try:
            budgets = await self._budgets.hold(claim, rates.now)
        except BaseException:
            await self._give_back(reservation)
            raise
        found = _both(rates.usages, budgets.usages)
        if budgets.broken:
            await self._give_back(reservation)
            return refusal(self._rates.terms(claim.subjects), claim.needs, replace(budgets, usages=found))
        told = standings(self._rates.terms(claim.subjects), with_claim(claim, found, rates.now), rates.now)
        return replace(reservation, standings=told)

    def reserve_now(self, claim: Claim) -> None:
        """Redis has to be asked."""

    async def adjust(self, reservation: Reservation, input_tokens: int, output_tokens: int) -> Reservation | Refusal:
        claim = replace(reservation.claim, input_tokens=input_tokens, output_tokens=output_tokens)
        by = claim.needs - reservation.claim.needs
        if refused := await self._rates.change(reservation, by):
            return refused
        try:
            budgets = await self._budgets.correct(reservation, by)
        except BaseException:
            await self._rates.change(reservation, -by)
            raise
        if budgets is not None:
            await self._rates.change(reservation, -by)
            return refusal(claim.subjects, by, budgets)
        return replace(reservation, claim=claim)

    async def release(self, reservation: Reservation, used: Used | None) -> None:
        """The budget first: where the database is away this is tried again, and Redis must not be told twice."""
        await self._budgets.settle(reservation.claim, used or Used())
        await self._rates.change(reservation, refund(reservation.claim, used), ends=True)

    def release_now(self, reservation: Reservation, used: Used | None) -> bool:
        return False

    async def heartbeat(self, reservations: Collection[Reservation]) -> None:
        await self._rates.heartbeat([reservation.claim for reservation in reservations])

    async def standings(self, subjects: Sequence[Subject]) -> tuple[Standing, ...]:
        rates = await self._rates.look(subjects)
        found = _both(rates.usages, await self._budgets.usages(subjects, rates.now))
        return standings(self._rates.terms(subjects), found, rates.now)

    async def _give_back(self, reservation: Reservation) -> None:
        await self._rates.change(reservation, refund(reservation.claim, None), ends=True)


def _both(rates: Sequence[Usage], budgets: Sequence[Usage]) -> list[Usage]:
    return [Usage(r.amounts + b.amounts, r.newest) for r, b in zip(rates, budgets, strict=True)]

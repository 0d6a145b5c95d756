"""A limiter of any store under a clock that the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from storage import Database
from storage.database import Session
from storage.limits.database_limiter import DatabaseLimiter
from storage.limits.held_budgets import HeldBudgets
from storage.limits.lane import Lane
from storage.limits.limiter import Limiter
from storage.limits.redis_limiter import RedisLimiter
from storage.limits.redis_rates import RedisRates
from storage.limits.shared_rates import SharedRates
from storage.limits.values import Claim, Dimension, Limits, Refusal, Reservation, Scope, Subject
from storage.money import Price

JULY = 1_782_900_000.25
"""2026-07-01 10:00:00.25 UTC."""
LEASE = 15.0


@dataclass
class Bench:
    """`limiter`, and short words for what tests ask of it."""

    db: Database
    limiter: Limiter = field(init=False)
    now: float = JULY
    numbers: "count[int]" = field(default_factory=count)

    async def database_clock(self, session: Session) -> float:
        return self.now

    def claim(self, *subjects: Subject, input: int = 1, output: int = 1, price: Price | None = None) -> Claim:
        return Claim(f"r{next(self.numbers)}", "home:1", subjects, input, output, price or Price())

    async def ask(self, *subjects: Subject, **amounts: Any) -> Reservation | Refusal:
        return await self.limiter.reserve(self.claim(*subjects, **amounts))

    async def held(self, *subjects: Subject, **amounts: Any) -> Reservation:
        answer = await self.ask(*subjects, **amounts)
        assert isinstance(answer, Reservation), answer
        return answer

    async def refused(self, *subjects: Subject, **amounts: Any) -> Refusal:
        """Asserts that it changed nothing."""
        before = await self.used(*subjects)
        answer = await self.ask(*subjects, **amounts)
        assert isinstance(answer, Refusal), answer
        assert await self.used(*subjects) == before
        return answer

    async def used(self, *subjects: Subject) -> dict[tuple[str, Dimension], int]:
        everything = [replace(subject, limits=counted(subject.limits)) for subject in subjects]
        return {(s.subject.name, s.dimension): s.used for s in await self.limiter.standings(everything)}


def counted(limits: Limits) -> Limits:
    """Limits that let every counter be seen."""
    return replace(limits, **{name: 10**12 for name in Limits.__slots__})


def tenant(**limits: int) -> Subject:
    return subject("tenant", **limits)


def project(**limits: int) -> Subject:
    return subject("project", **limits)


def key(**limits: int) -> Subject:
    return subject("key", **limits)


def subject(scope: Scope, id: str = "a", **limits: int) -> Subject:
    return Subject(scope, id, Limits(**limits))


@asynccontextmanager
async def in_database(bench: Bench, short_way: str = "") -> AsyncIterator[Limiter]:
    """`short_way`: the URL of the SQLite file, for the lane beside units of work."""
    lane = Lane.of(short_way, "process") if short_way else None
    limiter = DatabaseLimiter(bench.db, LEASE, bench.database_clock, lane)
    yield limiter
    limiter.close()
    if lane is not None:
        lane.close()


@asynccontextmanager
async def in_redis(bench: Bench, url: str, patience: float = 5.0) -> AsyncIterator[Limiter]:
    rates = RedisRates(url, LEASE, patience, lambda: bench.now)
    shared = SharedRates(rates, lambda: 4, LEASE, lambda: bench.now)
    await shared.start()
    assert shared.mode == "shared"
    yield RedisLimiter(shared, HeldBudgets(bench.db, bench.database_clock))
    await shared.close()

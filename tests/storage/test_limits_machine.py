"""Any order of reserving, adjusting, releasing, dying and waiting: a limiter does what one list of facts says."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from storage import Database
from storage.limits.limiter import Limiter
from storage.limits.rules import WINDOW, month_of
from storage.limits.values import DIMENSIONS, Claim, Dimension, Limits, Refusal, Reservation, Subject
from storage.money import Price, Used
from tests.storage.limiting import LEASE, Bench, in_database, in_redis
from tests.storage.valkey import empty

TENANT = Subject("tenant", "t", Limits(concurrency=3, input_tokens_per_minute=60, monthly_tokens=400))
PROJECT = Subject("project", "p", Limits(requests_per_minute=5, monthly_micros=300))
KEYS = [Subject("key", name, Limits(concurrency=2, output_tokens_per_minute=30)) for name in "ab"]
PRICE = Price(input=1_000_000, cached=500_000, output=2_000_000)
END_OF_JULY = 1_785_542_000.5
"""400 seconds before August."""


@dataclass
class Fact:
    """One claim that passed, and what became of it."""

    held: Reservation
    charged: Used
    month: str
    lease_until: float
    held_tokens: int
    held_micros: int
    never_ran: bool = False
    ended: bool = False


class Model:
    """Sums over facts, on every question anew."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def used(self, subject: Subject, dimension: Dimension, now: float) -> int:
        mine = [f for f in self.facts if subject in f.held.claim.subjects]
        if dimension == "concurrency":
            return sum(not f.ended and f.lease_until > now for f in mine)
        if dimension.startswith("monthly"):
            name = "held_tokens" if dimension == "monthly_tokens" else "held_micros"
            return sum(getattr(f, name) for f in mine if f.month == month_of(now))
        recent = [f for f in mine if f.held.second >= int(now) - WINDOW]
        if dimension == "requests_per_minute":
            return sum(not f.never_ran for f in recent)
        name = "input_tokens" if dimension == "input_tokens_per_minute" else "output_tokens"
        return sum(getattr(f.charged, name) for f in recent)

    def broken(self, claim: Claim, now: float) -> tuple[str, Dimension] | None:
        for dimension in DIMENSIONS:
            for subject in claim.subjects:
                limit, need = subject.limits.of(dimension), claim.needs.of(dimension)
                if limit is not None and need > 0 and self.used(subject, dimension, now) + need > limit:
                    return subject.name, dimension
        return None


class Machine(RuleBasedStateMachine):
    """On SQLite, or on Redis with SQLite for the budgets."""

    def __init__(self, url: str, valkey_url: str | None) -> None:
        super().__init__()
        self.url, self.valkey_url = url, valkey_url
        self.runner = asyncio.Runner()
        self.model = Model()
        self.runner.run(self._start())

    async def _start(self) -> None:
        self.bench = Bench(await Database.open(self.url))
        self.bench.now = END_OF_JULY
        if self.valkey_url:
            await empty(self.valkey_url)
            self.context = in_redis(self.bench, self.valkey_url)
        else:
            self.context = in_database(self.bench, self.url)
        self.limiter: Limiter = await self.context.__aenter__()

    def teardown(self) -> None:
        async def stop() -> None:
            await self.context.__aexit__(None, None, None)
            await self.bench.db.close()

        self.runner.run(stop())
        self.runner.close()

    @property
    def alive(self) -> list[Fact]:
        return [fact for fact in self.model.facts if not fact.ended]

    @rule(key=st.sampled_from(KEYS), input=st.integers(0, 25), output=st.integers(0, 12))
    def reserve(self, key: Subject, input: int, output: int) -> None:
        claim = self.bench.claim(TENANT, PROJECT, key, input=input, output=output, price=PRICE)
        expected = self.model.broken(claim, self.bench.now)
        answer = self.runner.run(self.limiter.reserve(claim))
        if isinstance(answer, Refusal):
            assert (answer.subject.name, answer.dimension) == expected
            return
        assert expected is None
        now, needs = self.bench.now, claim.needs
        self.model.facts.append(
            Fact(answer, Used(input, output), month_of(now), now + LEASE, needs.monthly_tokens, needs.monthly_micros)
        )

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, 9), input=st.integers(0, 25), output=st.integers(0, 12))
    def adjust(self, which: int, input: int, output: int) -> None:
        fact = self.alive[which % len(self.alive)]
        if self.bench.now - fact.held.at > WINDOW - 1:
            return
        claim = replace(fact.held.claim, input_tokens=input, output_tokens=output)
        by = claim.needs - fact.held.claim.needs
        fits = all(
            subject.limits.of(d) is None
            or by.of(d) <= 0
            or self.model.used(subject, d, self.bench.now) + by.of(d) <= (subject.limits.of(d) or 0)
            for d in DIMENSIONS
            for subject in claim.subjects
        )
        answer = self.runner.run(self.limiter.adjust(fact.held, input, output))
        assert isinstance(answer, Reservation) == fits
        if isinstance(answer, Reservation):
            fact.held, fact.charged = answer, Used(input, output)
            fact.held_tokens, fact.held_micros = claim.needs.monthly_tokens, claim.needs.monthly_micros

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, 9), part=st.floats(0, 1), cached=st.floats(0, 1), runs=st.booleans())
    def release(self, which: int, part: float, cached: float, runs: bool) -> None:
        fact = self.alive[which % len(self.alive)]
        claim = fact.held.claim
        input = int(claim.input_tokens * part)
        used = Used(input, int(claim.output_tokens * part), int(input * cached)) if runs else None
        self.runner.run(self.limiter.release(fact.held, used))
        fact.ended, fact.never_ran, fact.charged = True, not runs, used or Used()
        fact.held_tokens, fact.held_micros = fact.charged.tokens, PRICE.cost(fact.charged)

    @rule(which=st.integers(0, 9), keeps_all=st.booleans())
    def heartbeat(self, which: int, keeps_all: bool) -> None:
        renewed = self.alive if keeps_all else self.alive[which:]
        self.runner.run(self.limiter.heartbeat([fact.held for fact in renewed]))
        for fact in renewed:
            fact.lease_until = self.bench.now + LEASE

    @rule(seconds=st.sampled_from([0.25, 1.0, 7.5, 16.0, 60.0, 61.0, 300.0]))
    def wait(self, seconds: float) -> None:
        self.bench.now += seconds

    @invariant()
    def counts_are_the_sums(self) -> None:
        subjects = [TENANT, PROJECT, *KEYS]
        standings = self.runner.run(self.limiter.standings(subjects))
        for standing in standings:
            expected = self.model.used(standing.subject, standing.dimension, self.bench.now)
            assert standing.used == expected, (standing.subject.name, standing.dimension)
            assert standing.dimension.startswith("monthly") is False or standing.used <= standing.limit


def _run(tmp_path: Path, migrated: Path, steps: int, examples: int, valkey_url: str | None = None) -> None:
    def fresh() -> Machine:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        shutil.copy(migrated, folder / "specgate.db")
        return Machine(f"sqlite+aiosqlite:///{folder / 'specgate.db'}", valkey_url)

    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(fresh, settings=profile)  # type: ignore[no-untyped-call]


def test_in_the_database(tmp_path: Path, migrated: Path) -> None:
    _run(tmp_path, migrated, steps=30, examples=12)


def test_in_redis(tmp_path: Path, migrated: Path, valkey_url: str) -> None:
    _run(tmp_path, migrated, steps=30, examples=12, valkey_url=valkey_url)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_for_longer(tmp_path: Path, migrated: Path, valkey_url: str) -> None:
    _run(tmp_path, migrated, steps=60, examples=150)
    _run(tmp_path, migrated, steps=60, examples=150, valkey_url=valkey_url)

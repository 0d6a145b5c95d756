"""Redis is killed, frozen, emptied or absent: limits are neither open nor shut, and nobody gets them twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from storage.limits.held_budgets import HeldBudgets
from storage.limits.redis_limiter import RedisLimiter
from storage.limits.redis_rates import RedisRates
from storage.limits.shared_rates import PROBE_SECONDS, SharedRates
from storage.limits.values import Claim, Limits, Refusal, Reservation, Subject, Verdict
from tests.storage.valkey import Valkey, valkey

pytestmark = pytest.mark.anyio
GATEWAYS = 4
NO_BUDGETS = HeldBudgets(None)  # type: ignore[arg-type] - they are not asked


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    with valkey(tmp_path) as running:
        yield running


@asynccontextmanager
async def gateways(
    server: Valkey, patience: float = 5.0, settle: float = 0.2, n: int = GATEWAYS
) -> AsyncIterator[list[SharedRates]]:
    """As many gateways as share the limits. `patience`: this machine may be busy."""
    async with AsyncExitStack() as stack:
        several = []
        for _ in range(n):
            rates = SharedRates(RedisRates(server.url, 15, patience), lambda: GATEWAYS, settle)
            stack.push_async_callback(rates.close)
            await rates.start()
            several.append(rates)
        yield several


def one(**limits: int) -> Subject:
    return Subject("key", "k", Limits(**limits))


class Load:
    """Requests that each count once."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.passed, self.asked = subject, 0, 0

    async def ask(self, rates: SharedRates, times: int = 1) -> int:
        answers = await asyncio.gather(*(rates.reserve(self._claim()) for _ in range(times)))
        passed = sum(isinstance(answer, Verdict) for answer in answers)
        self.passed += passed
        return passed

    async def keep_asking(self, several: list[SharedRates], seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for rates in several:
                await self.ask(rates)
            await asyncio.sleep(0.01)

    def _claim(self) -> Claim:
        self.asked += 1
        return Claim(f"r{self.asked}", "home:1", (self.subject,), 1, 1)


async def charged(rates: SharedRates, subject: Subject) -> int:
    return (await rates.look([subject])).usages[0].amounts.requests_per_minute


async def is_shared_again(several: list[SharedRates]) -> None:
    async with asyncio.timeout(10):
        while any(rates.mode != "shared" for rates in several):
            for rates in several:
                await rates.heartbeat([])
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("limit", "share"), [(10, 2), (3, 1), (0, 0)])
async def test_without_redis_each_gateway_has_its_share(server: Valkey, limit: int, share: int) -> None:
    server.kill()
    async with gateways(server, patience=0.05) as several:
        load = Load(one(requests_per_minute=limit))
        assert [await load.ask(rates, 10) for rates in several] == [share] * GATEWAYS
        load = Load(Subject("key", "other", Limits(concurrency=limit)))
        assert [await load.ask(rates, 10) for rates in several] == [share] * GATEWAYS


async def test_a_frozen_redis_costs_a_request_a_moment_and_then_nothing(server: Valkey) -> None:
    async with gateways(server, patience=0.05, n=1) as (rates,):
        load = Load(one(requests_per_minute=1000))
        assert await load.ask(rates) == 1
        server.freeze()
        begun = time.monotonic()
        assert await load.ask(rates, 3) == 3
        assert rates.mode == "alone"
        assert RedisLimiter(rates, NO_BUDGETS).is_degraded
        assert time.monotonic() - begun < 0.05 * 3 + 1.0
        begun = time.monotonic()
        for _ in range(100):
            await load.ask(rates)
        probes = 1 + (time.monotonic() - begun) / PROBE_SECONDS
        assert time.monotonic() - begun < probes * 0.05 + 1.0
        server.thaw()
        await is_shared_again([rates])
        assert not RedisLimiter(rates, NO_BUDGETS).is_degraded
        assert load.passed == 104
        # What it had been sent before it froze it may do after the thaw: that counts too much, never too little.
        assert 104 <= await charged(rates, load.subject) <= 107


async def test_a_redis_that_lost_its_memory_is_told_what_was_charged_and_what_runs(server: Valkey) -> None:
    async with gateways(server) as several:
        load = Load(one(requests_per_minute=40, concurrency=40))
        for rates in several:
            assert await load.ask(rates, 3) == 3
        server.kill()
        server.start()
        await load.ask(several[0])
        assert several[0].mode == "returning", "it noticed by itself"
        await is_shared_again(several)
        usage = (await several[1].look([load.subject])).usages[0].amounts
        assert (usage.requests_per_minute, usage.concurrency) == (load.passed, load.passed) == (13, 13)


async def test_no_double_allowance_when_redis_comes_back_empty(server: Valkey) -> None:
    """One gateway had taken most of the limit; an emptied Redis knows nothing of it."""
    async with gateways(server, settle=1.0) as several:
        load = Load(one(requests_per_minute=40))
        assert await load.ask(several[0], 30) == 30
        for rates in several[1:]:
            assert await load.ask(rates) == 1
        server.kill()
        await load.keep_asking(several, 0.3)
        server.start()
        await load.keep_asking(several, 0.6)
        await is_shared_again(several)
        for rates in several:
            await load.ask(rates, 40)
        assert load.passed == 40, "all of the limit, and no more"


async def test_flapping_never_lets_more_than_a_tenth_too_many_pass(server: Valkey) -> None:
    async with gateways(server, patience=0.05, settle=0.5) as several:
        load = Load(one(requests_per_minute=100))
        for _ in range(4):
            await load.keep_asking(several, 0.3)
            server.kill()
            await load.keep_asking(several, 0.3)
            server.start()
        await load.keep_asking(several, 0.5)
        assert 50 <= load.passed <= 110


async def test_corrections_reach_a_redis_that_was_away(server: Valkey) -> None:
    async with gateways(server, n=2) as (rates, other):
        subject = one(output_tokens_per_minute=1000, concurrency=5)
        claim = Claim("long", "home:1", (subject,), 10, 900)
        verdict = await rates.reserve(claim)
        assert isinstance(verdict, Verdict)
        server.kill()
        for _ in range(3):
            await rates.look([subject])
        assert rates.mode == "alone"
        held = Reservation(claim, verdict.now)
        by = claim.needs - Claim("long", "home:1", (subject,), 10, 1800).needs
        assert await rates.change(held, by, ends=True) is None
        assert isinstance(await rates.reserve(Claim("more", "home:1", (subject,), 1, 1800)), Refusal)
        server.start()
        await is_shared_again([rates, other])
        usage = (await other.look([subject])).usages[0].amounts
        assert (usage.output_tokens_per_minute, usage.concurrency) == (0, 0)

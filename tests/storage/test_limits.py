"""The contract of every limiter, on real servers of each store."""

import asyncio
from typing import Any

import pytest

from storage.limits.rules import month_ends
from storage.limits.values import DIMENSIONS, Refusal, Reservation, Scope
from storage.money import Price, Used
from tests.storage.limiting import JULY, LEASE, Bench, key, project, subject, tenant

pytestmark = pytest.mark.anyio
SCOPES: tuple[Scope, ...] = ("tenant", "project", "key")


async def test_up_to_the_limit_and_not_beyond(bench: Bench) -> None:
    for scope in SCOPES:
        for dimension in DIMENSIONS:
            levels = [subject(one, dimension, **({dimension: 2} if one == scope else {})) for one in SCOPES]
            claim = {"input": 1, "output": 0} if dimension == "monthly_tokens" else {}
            for _ in range(2):
                await bench.held(*levels, price=Price(10**6, 10**6, 0), **claim)
            refusal = await bench.refused(*levels, price=Price(10**6, 10**6, 0), **claim)
            assert (refusal.subject.scope, refusal.dimension) == (scope, dimension)
            assert (refusal.limit, refusal.used, refusal.needed) == (2, 2, 1)


async def test_every_level_applies(bench: Bench) -> None:
    levels = (tenant(requests_per_minute=5), project(requests_per_minute=3), key(requests_per_minute=2))
    other = (levels[0], levels[1], subject("key", "b", requests_per_minute=2))
    for _ in range(2):
        await bench.held(*levels)
    assert (await bench.refused(*levels)).subject == levels[2]
    await bench.held(*other)
    assert (await bench.refused(*other)).subject == levels[1]
    used = await bench.used(*levels, other[2])
    assert [used[level.name, "requests_per_minute"] for level in (*levels, other[2])] == [3, 3, 2, 1]


async def test_concurrency_refuses_before_rates_and_rates_before_budgets(bench: Bench) -> None:
    """Regression of others: a request refused for concurrency still consumed a request of the minute."""
    outer, inner = tenant(monthly_tokens=0, requests_per_minute=0), key(concurrency=0, output_tokens_per_minute=0)
    assert (await bench.refused(outer, inner)).dimension == "concurrency"
    inner = key(output_tokens_per_minute=0)
    assert (await bench.refused(outer, inner)).dimension == "requests_per_minute"
    assert (await bench.refused(tenant(monthly_tokens=0), inner)).dimension == "output_tokens_per_minute"
    assert (await bench.refused(tenant(monthly_tokens=0), key())).dimension == "monthly_tokens"


async def test_who_has_no_limit_is_not_counted(bench: Bench) -> None:
    await bench.held(tenant(), key())
    assert set((await bench.used(tenant(), key())).values()) == {0}


class TestRates:
    async def test_no_minute_sees_more_than_the_limit(self, bench: Bench) -> None:
        one = key(requests_per_minute=2)
        for at in (0.7, 30.0):
            bench.now = JULY + at
            await bench.held(one)
        bench.now = JULY + 60.0
        assert (await bench.refused(one)).retry_after == 0.75, "the first was charged in the second that began at -0.25"
        bench.now += 0.75
        await bench.held(one)
        assert (await bench.refused(one)).retry_after == pytest.approx(30)

    async def test_waiting_is_told_for_the_tokens_that_are_needed(self, bench: Bench) -> None:
        one = key(input_tokens_per_minute=100)
        for second in range(5):
            bench.now = JULY + second
            await bench.held(one, input=20)
        assert (await bench.refused(one, input=1)).retry_after == 61 - 4.25
        assert (await bench.refused(one, input=50)).retry_after == 61 - 2.25
        assert (await bench.refused(one, input=100)).retry_after == 61 - 0.25
        assert (await bench.refused(one, input=101)).retry_after is None, "it would never fit"

    async def test_what_was_not_used_is_given_back(self, bench: Bench) -> None:
        one = key(input_tokens_per_minute=1000, output_tokens_per_minute=1000, requests_per_minute=10)
        held = await bench.held(one, input=700, output=900)
        await bench.refused(one, input=301)
        held = _held(await bench.limiter.adjust(held, 200, 900))
        await bench.limiter.release(held, Used(200, 30, 50))
        used = await bench.used(one)
        assert [used["key:a", d] for d in DIMENSIONS[:4]] == [0, 1, 200, 30]  # type: ignore[index]

    async def test_what_never_ran_leaves_nothing(self, bench: Bench) -> None:
        levels = (tenant(monthly_tokens=10**6), key(input_tokens_per_minute=1000, concurrency=1))
        held = await bench.held(*levels, input=700, output=900)
        await bench.limiter.release(held, None)
        assert set((await bench.used(*levels)).values()) == {0}

    async def test_more_than_was_claimed_must_fit(self, bench: Bench) -> None:
        one = key(input_tokens_per_minute=100, monthly_tokens=1000)
        held = await bench.held(one, input=60, output=10)
        before = await bench.used(one)
        refusal = await bench.limiter.adjust(held, 101, 10)
        assert isinstance(refusal, Refusal)
        assert (refusal.dimension, refusal.used, refusal.needed) == ("input_tokens_per_minute", 60, 41)
        assert await bench.used(one) == before
        held = _held(await bench.limiter.adjust(held, 100, 0))
        used = await bench.used(one)
        assert (used["key:a", "input_tokens_per_minute"], used["key:a", "monthly_tokens"]) == (100, 100)
        await bench.limiter.release(held, Used())
        assert (await bench.used(one))["key:a", "input_tokens_per_minute"] == 0

    async def test_a_correction_that_comes_too_late_is_harmless(self, bench: Bench) -> None:
        one = key(output_tokens_per_minute=100, monthly_tokens=1000)
        held = await bench.held(one, output=100)
        bench.now += 600
        await bench.limiter.heartbeat([held])
        await bench.limiter.release(held, Used(1, 5))
        used = await bench.used(one)
        assert (used["key:a", "output_tokens_per_minute"], used["key:a", "monthly_tokens"]) == (0, 6)

    async def test_standings_tell_what_is_left_and_until_when(self, bench: Bench) -> None:
        one = key(requests_per_minute=5, monthly_tokens=50)
        held = await bench.held(one, input=3, output=4)
        requests, tokens = held.standings
        assert (requests.limit, requests.remaining, requests.resets_in) == (5, 4, 60.75)
        assert (tokens.limit, tokens.remaining, tokens.resets_in) == (50, 43, month_ends(JULY) - JULY)
        bench.now += 10
        assert [s.remaining for s in await bench.limiter.standings([one])] == [4, 43]
        refusal = await bench.refused(one, input=44)
        assert [s.remaining for s in refusal.standings] == [4, 43]
        assert refusal.standings[0].resets_in == 50.75


class TestConcurrency:
    async def test_a_place_is_free_again_after_the_end(self, bench: Bench) -> None:
        one = key(concurrency=1)
        held = await bench.held(one)
        assert (await bench.refused(one)).retry_after == 1.0
        await bench.limiter.release(held, Used())
        await bench.held(one)

    async def test_a_lease_ends_unless_it_is_renewed(self, bench: Bench) -> None:
        one = key(concurrency=2)
        renewed, forgotten = await bench.held(one), await bench.held(one)
        bench.now += LEASE - 0.5
        await bench.refused(one)
        await bench.limiter.heartbeat([renewed])
        bench.now += 1.0
        await bench.held(one)
        await bench.refused(one)
        await bench.limiter.release(forgotten, Used())
        await bench.refused(one)

    async def test_one_that_runs_is_counted_again_though_its_lease_had_ended(self, bench: Bench) -> None:
        one = key(concurrency=1)
        held = await bench.held(one)
        bench.now += LEASE + 1
        await bench.limiter.heartbeat([])
        await bench.limiter.heartbeat([held])
        await bench.refused(one)


class TestBudgets:
    async def test_the_month_is_utc_and_found_by_the_clock(self, bench: Bench) -> None:
        one = tenant(monthly_tokens=100)
        bench.now = month_ends(JULY) - 0.001
        old = await bench.held(one, input=100, output=0)
        assert (await bench.refused(one)).retry_after == pytest.approx(0.001, abs=1e-4)
        bench.now += 0.002
        await bench.held(one, input=99, output=0)
        await bench.limiter.release(old, Used(100))
        await bench.held(one, input=1, output=0)

    async def test_spending_is_at_the_price_of_admission_rounded_once(self, bench: Bench) -> None:
        one = tenant(monthly_micros=1000)
        price = Price(input=150_000, cached=50_000, output=600_000)
        held = _held(await bench.limiter.reserve(bench.claim(one, input=100, output=20, price=price)))
        assert (await bench.used(one))["tenant:a", "monthly_micros"] == 27
        await bench.limiter.release(held, Used(input_tokens=95, cached_tokens=60, output_tokens=11))
        assert (await bench.used(one))["tenant:a", "monthly_micros"] == 15, "5.25 + 3 + 6.6 = 14.85"

    async def test_fifty_at_once_never_hold_more_than_there_is(self, bench: Bench) -> None:
        one = tenant(monthly_tokens=105)
        answers = await asyncio.gather(*(bench.ask(one, input=8, output=2) for _ in range(50)))
        assert sum(isinstance(answer, Reservation) for answer in answers) == 10
        assert (await bench.used(one))["tenant:a", "monthly_tokens"] == 100


async def test_fifty_first_requests_at_a_limit_of_ten(bench: Bench) -> None:
    """Regression of others: all first requests passed, before any counter existed."""
    limits = {"requests_per_minute": 10, "concurrency": 10, "output_tokens_per_minute": 10}
    answers = await asyncio.gather(*(bench.ask(tenant(**limits), key(**limits)) for _ in range(50)))
    held = [answer for answer in answers if isinstance(answer, Reservation)]
    assert len(held) == 10
    for reservation in held:
        await bench.limiter.release(reservation, None)
    assert set((await bench.used(tenant(**limits), key(**limits))).values()) == {0}


@pytest.mark.parametrize(
    ("used", "cost"),
    [(Used(1), 0), (Used(3), 2), (Used(5), 2), (Used(7), 4), (Used(10**12 + 1), 5 * 10**11), (Used(4, 1, 4), 1)],
)
def test_halves_are_rounded_to_even(used: Used, cost: int) -> None:
    assert Price(input=500_000, cached=0, output=700_000).cost(used) == cost


def _held(answer: Any) -> Reservation:
    assert isinstance(answer, Reservation), answer
    return answer

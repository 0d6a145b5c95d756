"""What a dead gateway left is settled once: by its last checkpoint, or as nothing where it never began."""

from dataclasses import replace

import pytest

from storage import Database
from storage.ledger import Ledger
from storage.limits.gateways import Gateways
from storage.limits.reaper import settle_dead
from storage.limits.values import Claim, Limits, Subject
from storage.tenants import Tenants
from storage.values import Figures
from tests.storage.entries import ENDED, open_requests, problems, settle
from tests.storage.limiting import JULY, LEASE, Bench

pytestmark = pytest.mark.anyio
TENANT = Subject("tenant", "default", Limits(monthly_tokens=10_000))


async def _live(db: Database, now: float, *ids: str) -> int:
    async with db.unit() as session:
        for id in ids:
            await Gateways(session).renew(id, now, LEASE)
        return await Gateways(session).num_live(now)


async def _reap(bench: Bench) -> int:
    async with bench.db.unit() as session:
        return await settle_dead(session, bench.now)


async def test_a_gateway_lives_as_long_as_it_says_so(bench: Bench) -> None:
    assert await _live(bench.db, JULY, "home:1", "home:2") == 2
    assert await _live(bench.db, JULY + LEASE - 1, "home:2") == 2
    assert await _live(bench.db, JULY + LEASE) == 1
    async with bench.db.unit() as session:
        assert await Gateways(session).dead(JULY + LEASE) == ["home:1"]
        await Gateways(session).forget(["home:1"])
        assert await Gateways(session).known() == ["home:2"]


async def test_holds_of_the_dead_become_what_the_ledger_says(bench: Bench) -> None:
    async with bench.db.unit() as session:
        await Tenants(session).ensure("default", "Default")
    await _live(bench.db, JULY, "home:1", "home:2")
    for id, owner in (("cut", "home:1"), ("ended", "home:1"), ("unopened", "home:1"), ("runs", "home:2")):
        await bench.limiter.reserve(Claim(id, owner, (TENANT,), 100, 900))
    await open_requests(bench.db, "cut", "ended", owner="home:1")
    await open_requests(bench.db, "runs", owner="home:2")
    async with bench.db.unit() as session:
        half = Figures(prompt_tokens=100, visible_tokens=64, completion_tokens=64, final=False)
        await Ledger(session).checkpoint("cut", 64, 60, replace(half))
    await settle(bench.db, "ended", ENDED)
    bench.now += LEASE - 1
    await _live(bench.db, bench.now, "home:2")
    assert await _reap(bench) == 0, "its lease still runs"
    bench.now += 2
    assert await _reap(bench) == 1 + 3
    assert (await bench.used(TENANT))["tenant:default", "monthly_tokens"] == (100 + 60) + (100 + 20) + 0 + 1000
    assert await _reap(bench) == 0
    async with bench.db.view() as session:
        assert [entry.request_id for entry in await Ledger(session).unsettled()] == ["runs"]
    assert await problems(bench.db) == []


async def test_a_gateway_that_left_is_not_waited_for(bench: Bench) -> None:
    await _live(bench.db, JULY, "home:1")
    await bench.limiter.reserve(Claim("left", "home:9", (TENANT,), 100, 900))
    assert await _reap(bench) == 1
    assert (await bench.used(TENANT))["tenant:default", "monthly_tokens"] == 0

"""A gateway that lives keeps what it runs; one that died is settled by the others, once they have had time to speak."""

import asyncio
import time
from pathlib import Path

import pytest

from storage.database import Session
from storage.ledger import Ledger
from storage.limits.budgets import Budgets
from storage.limits.gateways import Gateways
from storage.limits.values import Claim, Limits, Subject
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.limiting import TENANT, is_released, limit, used
from tests.gateway.running import Gateway, running
from tests.gateway.test_disconnect import asking, read_until
from tests.storage.entries import opening

pytestmark = pytest.mark.anyio
MANY = tuple(f" {i}" for i in range(50))
LEASE = 0.6
PATIENT_LEASE = 1.5
"""Where a busy machine that is late with a heartbeat would be taken for the fault."""


async def test_a_stream_keeps_its_place_for_many_leases(tmp_path: Path) -> None:
    """Regression of others: places of long streams were taken for leaked, and given to others."""
    async with running(tmp_path, FakeEngine(Script(words=MANY, hold_at=1)), lease_seconds=PATIENT_LEASE) as gateway:
        await limit(gateway.parts.db, *TENANT, concurrency=1, monthly_tokens=10**6)
        async with asking(gateway, stream=True, max_tokens=60) as reader:
            await read_until(reader, b'"content":" 0"')
            until = time.monotonic() + 4 * PATIENT_LEASE
            while time.monotonic() < until:
                assert (await used(gateway.parts.limiter, *TENANT))["concurrency"] == 1
                await asyncio.sleep(0.05)
            assert (await gateway.chat()).status_code == 429
            assert (await gateway.rows("settle")) == []
        await is_released(gateway.parts.limiter, TENANT)


async def test_what_a_dead_gateway_left_is_settled_once_others_had_time_to_speak(tmp_path: Path) -> None:
    begun = time.monotonic()
    async with running(tmp_path, FakeEngine(), lease_seconds=LEASE) as gateway:
        await limit(gateway.parts.db, *TENANT, monthly_tokens=10**6)
        async with gateway.parts.db.unit() as session:
            await _die(session)
        assert (await used(gateway.parts.limiter, *TENANT))["monthly_tokens"] == 1000
        async with asyncio.timeout(10):
            while (await used(gateway.parts.limiter, *TENANT))["monthly_tokens"]:
                await asyncio.sleep(0.02)
        assert time.monotonic() - begun >= LEASE * 2 / 3
        row = await gateway.settled()
        assert (row.request_id, row.outcome, row.completion_tokens) == ("left", "interrupted", 0)
        assert await _known(gateway) == [gateway.parts.books.owner]


async def test_a_gateway_that_leaves_is_counted_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        first = gateway.parts.books.owner
        assert await _live(gateway) == 1
    async with running(tmp_path, FakeEngine()) as gateway:
        assert await _live(gateway) == 1
        assert set(await _known(gateway)) == {first, gateway.parts.books.owner}


async def _die(session: Session) -> None:
    """A gateway that opened a request, held its budget, and was killed long ago."""
    await Gateways(session).renew("dead:1", time.time() - 3600, LEASE)
    await Ledger(session).open(opening("left", owner="dead:1"))
    tenant = Subject(*TENANT, Limits(monthly_tokens=10**6))
    await Budgets(session).hold(Claim("left", "dead:1", (tenant,), 100, 900), time.time())


async def _live(gateway: Gateway) -> int:
    async with gateway.parts.db.view() as session:
        return await Gateways(session).num_live(time.time())


async def _known(gateway: Gateway) -> list[str]:
    async with gateway.parts.db.view() as session:
        return await Gateways(session).known()

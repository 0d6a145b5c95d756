"""`kill -9` of a gateway at random moments under load: who got a byte is settled once, soon, and never for more."""

import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from storage import Database
from tests.gateway.forked import forked, made
from tests.gateway.killing import Crowd, all_settled, check

pytestmark = pytest.mark.anyio
SCRIPT = {"step": 2, "gap": 0.004, "rejected": 3}
LEASE = 4.0
"""A busy machine may hold a gateway up for seconds; it still lives then."""
SHARED = {"secret": "s" * 40, "lease_seconds": LEASE, "checkpoint_tokens": 16}
MOMENTS = [
    pytest.param(10, id="10"),
    pytest.param(200, id="200", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
]


@pytest.mark.parametrize("moments", MOMENTS)
async def test_the_next_start_settles_what_the_killed_one_left(tmp_path: Path, moments: int) -> None:
    """SQLite: one home, one gateway after the other."""
    draw, crowd, home = random.Random(moments), Crowd(6, seed=moments), tmp_path / "home"
    recovered = 0
    for _ in range(moments):
        async with forked(home, SCRIPT, **SHARED) as gateway:
            recovered += gateway.recovered
            await crowd.ask(gateway, draw.randint(1, 900))
    async with forked(home, SCRIPT, **SHARED) as gateway:
        recovered += gateway.recovered
        await gateway.end()
    db = await Database.open(f"sqlite+aiosqlite:///{home / 'specgate.db'}")
    await all_settled(db, seconds=0.5)
    ended = await check(db, crowd.log, made(home))
    await db.close()
    assert ended["interrupted"] > moments
    assert ended["completed"] > moments
    assert ended["interrupted"] <= recovered


@pytest.mark.parametrize("moments", MOMENTS)
async def test_another_gateway_settles_it_within_the_lease(tmp_path: Path, postgres_url: str, moments: int) -> None:
    """PostgreSQL: each killed one had a home of its own, which never comes back."""
    draw, crowd = random.Random(moments), Crowd(6, seed=moments)
    homes = [tmp_path / str(number) for number in range(moments + 1)]
    shared = SHARED | {"database_url": postgres_url}
    async with AsyncExitStack() as stack:
        witness = await stack.enter_async_context(forked(homes[0], SCRIPT, **shared))
        for home in homes[1:]:
            async with forked(home, SCRIPT, **shared) as gateway:
                assert gateway.recovered == 0
                await crowd.ask(gateway, draw.randint(1, 900))
        db = await Database.open(postgres_url)
        stack.push_async_callback(db.close)
        await all_settled(db, seconds=LEASE + 5)
        ended = await check(db, crowd.log, made(*homes))
        await witness.end()
    assert ended["interrupted"] > moments
    assert ended["completed"] > moments

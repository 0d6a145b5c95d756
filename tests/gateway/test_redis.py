"""A gateway with Redis: killed, absent and back, it answers every request, and never lets more pass than the limit."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.fake_engine import FakeEngine
from tests.gateway.limiting import TENANT, is_released, limit, used
from tests.gateway.running import running
from tests.storage.valkey import valkey

pytestmark = pytest.mark.anyio


async def test_redis_is_killed_under_load_and_comes_back(tmp_path: Path) -> None:
    with valkey(tmp_path) as redis:
        members = {"redis_url": redis.url, "redis_seconds": 2.0, "lease_seconds": 1.0}
        async with running(tmp_path, FakeEngine(), **members) as gateway:
            await limit(gateway.parts.db, *TENANT, requests_per_minute=40, concurrency=10, monthly_tokens=10**6)
            statuses: list[int] = []
            is_over = False

            async def ask() -> None:
                while not is_over:
                    statuses.append((await gateway.chat()).status_code)

            load = [asyncio.create_task(ask()) for _ in range(4)]
            await asyncio.sleep(0.2)
            redis.kill()
            await asyncio.sleep(0.3)
            redis.start()
            await asyncio.sleep(2.5)
            is_over = True
            await asyncio.gather(*load)
            assert set(statuses) == {200, 429}, "nobody is told of Redis"
            assert statuses.count(200) == 40
            await is_released(gateway.parts.limiter, TENANT)
            told = await used(gateway.parts.limiter, *TENANT)
            billed = [row.prompt_tokens + row.completion_tokens for row in await gateway.rows("settle")]
            assert (told["requests_per_minute"], told["monthly_tokens"]) == (40, sum(billed))


async def test_a_redis_that_is_not_there_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), redis_url="redis://127.0.0.1:1/0") as gateway:
        await limit(gateway.parts.db, *TENANT, requests_per_minute=3)
        assert [(await gateway.chat()).status_code for _ in range(5)] == [200, 200, 200, 429, 429]

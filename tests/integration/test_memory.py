"""Memory stays as it is, whatever becomes of requests: answered, refused, failed, left."""

import statistics

import pytest

from tests.benchmarks import targets
from tests.benchmarks.soak import soak

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(300)]
REQUESTS = 8_000
MOST = 2048
"""Bytes a request in the second half: caches still fill; of a request that is kept remains ten times as much."""


async def test_a_soak_of_every_kind_leaves_nothing_behind() -> None:
    with targets.engine() as engine, targets.gateway(engine, "process") as gateway:
        memory = await soak(gateway, REQUESTS)
    assert memory.requests == REQUESTS
    half = memory.rss[len(memory.rss) // 2 :]
    slope = statistics.linear_regression(range(len(half)), half).slope / (REQUESTS / len(memory.rss))
    assert slope < MOST, f"{slope:.0f} bytes a request; after each twentieth: {memory.rss}"

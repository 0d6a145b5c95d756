"""Limits of a running gateway, set and looked at past its API."""

import asyncio

from storage import Database
from storage.limits.limiter import Limiter
from storage.limits.rows import LimitRows
from storage.limits.values import Dimension, Limits, Scope, Subject
from tests.gateway.running import Gateway

TENANT: tuple[Scope, str] = ("tenant", "default")


async def limit(db: Database, scope: Scope, id: str, **limits: int) -> None:
    """In force for requests of keys that were not asked for yet; for others within a second."""
    async with db.unit() as session:
        rows = LimitRows(session)
        before = await rows.get(scope, id)
        assert await rows.set(scope, id, Limits(**limits), before.version)


def key_id(gateway: Gateway) -> str:
    return gateway.key.split("-")[2]


async def used(limiter: Limiter, scope: Scope, id: str) -> dict[Dimension, int]:
    everything = Subject(scope, id, Limits(*(10**12 for _ in Limits.__slots__)))
    return {standing.dimension: standing.used for standing in await limiter.standings([everything])}


async def is_released(limiter: Limiter, *places: tuple[Scope, str], seconds: float = 5) -> None:
    """Nothing runs any more."""
    async with asyncio.timeout(seconds):
        while any([(await used(limiter, *place))["concurrency"] for place in places]):
            await asyncio.sleep(0.02)

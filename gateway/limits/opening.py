"""The limiter that the settings ask for."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.settings import Settings
from storage import Database
from storage.limits.database_limiter import DatabaseLimiter
from storage.limits.lane import Lane
from storage.limits.limiter import Limiter


@asynccontextmanager
async def open_limiter(settings: Settings, db: Database, num_gateways: Callable[[], int]) -> AsyncIterator[Limiter]:
    """Rates and concurrency in Redis where there is one; budgets always in the database."""
    if settings.redis_url is None:
        lane = Lane.of(settings.database, settings.durability)
        limiter = DatabaseLimiter(db, settings.lease_seconds, lane=lane)
        yield limiter
        limiter.close()
        if lane is not None:
            lane.close()
        return
    # Imported where it is used: a gateway without Redis does without its client's start-up time.
    from storage.limits.held_budgets import HeldBudgets
    from storage.limits.redis_limiter import RedisLimiter
    from storage.limits.redis_rates import RedisRates
    from storage.limits.shared_rates import SharedRates

    url = settings.redis_url.get_secret_value()
    redis = RedisRates(url, settings.lease_seconds, settings.redis_seconds)
    rates = SharedRates(redis, num_gateways, settle_seconds=settings.lease_seconds)
    await rates.start()
    try:
        yield RedisLimiter(rates, HeldBudgets(db))
    finally:
        await rates.close()

"""The gateway's task that rolls up what was settled, so that reports need not read it.

Every gateway looks now and then whether an hour became final; the first that finds one does it (`storage.rollups`).
What fails is tried again at the next look.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.telemetry import describe
from storage import Database, StorageError
from storage.rollups.roller import Roller
from storage.rollups.rollup import RollUp
from storage.rollups.usage_rollup import UsageRollUp
from storage.savings.rollup import SavingsRollUp

log = logging.getLogger("specgate.rollups")
PAUSE = 15.0
"""Seconds between two looks."""


def every_rollup() -> list[RollUp]:
    return [UsageRollUp(), SavingsRollUp()]


@asynccontextmanager
async def rolling_up(db: Database, owner: str, pause: float = PAUSE) -> AsyncIterator[None]:
    """Under way while inside. The first look is after a pause: what starts has better things to do."""
    rollers = [Roller(db, rollup, owner) for rollup in every_rollup()]
    looks = asyncio.create_task(_look(rollers, pause), name="rollups")
    try:
        yield
    finally:
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)
        for roller in rollers:
            with suppress(StorageError):
                await roller.close()


async def _look(rollers: list[Roller], pause: float) -> None:
    while True:
        await asyncio.sleep(pause)
        for roller in rollers:
            try:
                await roller.run()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on, and it is tried again
                told = type(error).__name__ if isinstance(error, StorageError) else describe(error)
                log.warning("not rolled up", extra={"fields": {"error": told}})

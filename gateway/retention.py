"""What is old is forgotten: usage rows and audit details by age, and what an erased tenant left behind.

An hourly look, on every gateway; batches are small and apart, so that no request waits for them. What fails is tried
again at the next look.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from gateway.export.exporter import NAME
from gateway.settings import Settings
from storage import Database, StorageError
from storage.erasure import erased_since
from storage.exports import Exports
from storage.retention import erase_details, forget_usage, forget_users
from storage.values import Tenant

log = logging.getLogger("specgate.retention")
PAUSE, FIRST = 3600.0, 60.0
"""Seconds between two looks, and before the first."""
BREATH = 0.05
"""Seconds between two batches."""
AFTERWARDS = timedelta(days=2)
"""So long after a tenant was erased its last requests are looked for."""


class Retention:
    def __init__(self, db: Database, settings: Settings, breath: float = BREATH) -> None:
        self._db, self._settings, self._breath = db, settings, breath

    async def run(self, now: datetime) -> None:
        """Raises StorageError."""
        usage_days, audit_days = self._settings.usage_days, self._settings.audit_days
        if usage_days is not None:
            before = await self._exported(now - timedelta(days=usage_days))
            await self._all("requests", lambda: forget_usage(self._db, before))
        if audit_days is not None:
            since = now - timedelta(days=audit_days)
            await self._all("audit details", lambda: erase_details(self._db, since))
        async with self._db.view() as session:
            erased = await erased_since(session, now - AFTERWARDS)
        for tenant in erased:
            await self.forget_tenant(tenant)

    async def forget_tenant(self, tenant: Tenant) -> None:
        """What was written of it before it was erased, and of its requests that ran then. Raises StorageError."""
        assert tenant.erased_at is not None
        erased_at = tenant.erased_at
        await self._all("users", lambda: forget_users(self._db, tenant.id))
        await self._all("audit details", lambda: erase_details(self._db, erased_at, tenant.id))

    async def _exported(self, before: datetime) -> datetime:
        """What the webhook has not been told yet is not forgotten."""
        if self._settings.export_url is None:
            return before
        async with self._db.view() as session:
            return min(before, (await Exports(session).reached(NAME)).at)

    async def _all(self, what: str, batch: Callable[[], Awaitable[int]]) -> None:
        forgotten = 0
        while done := await batch():
            forgotten += done
            await asyncio.sleep(self._breath)
        if forgotten:
            log.info("forgotten", extra={"fields": {"what": what, "number": forgotten}})


@asynccontextmanager
async def forgetting(db: Database, settings: Settings) -> AsyncIterator[None]:
    """Under way while inside."""
    looks = asyncio.create_task(_look(Retention(db, settings)), name="retention")
    try:
        yield
    finally:
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)


async def _look(retention: Retention) -> None:
    pause = FIRST
    while True:
        await asyncio.sleep(pause)
        pause = PAUSE
        try:
            await retention.run(datetime.now(UTC))
        except StorageError as error:
            log.warning("nothing forgotten", extra={"fields": {"error": type(error).__name__}})

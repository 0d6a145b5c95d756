"""Under which label a request is filed: the tenant's own, `other` from its fifty-first on.

Labels are never taken away, so what is known of a tenant stays true, and only a label's first use asks the database.
"""

import asyncio

from gateway.errors import from_storage
from storage import Database, StorageError
from storage.workloads import MOST, WorkloadLabels

OTHER = "other"
MOST_REMEMBERED = 4096


class Workloads:
    def __init__(self, db: Database, patience: float) -> None:
        self._db, self._patience = db, patience
        self._known: dict[str, frozenset[str]] = {}

    async def file(self, tenant_id: str, label: str | None) -> str | None:
        """Raises StorageUnavailable, StorageFull."""
        if label is None or label == OTHER:
            return label
        known = self._known.get(tenant_id, frozenset())
        if label not in known and len(known) < MOST:
            known = await self._look_up(tenant_id, label)
        return label if label in known else OTHER

    async def _look_up(self, tenant_id: str, label: str) -> frozenset[str]:
        try:
            async with asyncio.timeout(self._patience), self._db.unit() as session:
                known = await WorkloadLabels(session).with_one_more(tenant_id, label)
        except (StorageError, TimeoutError) as error:
            raise from_storage(error) from error
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[tenant_id] = known
        return known

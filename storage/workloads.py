"""A tenant's workload labels: the first `MOST` that it used, on whichever gateway."""

from datetime import UTC, datetime

from sqlalchemy import select

from storage.database import Session
from storage.models import workload_labels
from storage.tenants import Tenants

MOST = 50
_w = workload_labels.c


class WorkloadLabels:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def with_one_more(self, tenant_id: str, label: str) -> frozenset[str]:
        """All of the tenant's, this one among them unless there are `MOST` others."""
        await Tenants(self._session).get(tenant_id, for_update=True)  # two gateways count one after the other
        known = await self.of(tenant_id)
        if label in known or len(known) >= MOST:
            return known
        values = {"tenant_id": tenant_id, "label": label, "created_at": datetime.now(UTC)}
        await self._session.execute(workload_labels.insert().values(values))
        return known | {label}

    async def of(self, tenant_id: str) -> frozenset[str]:
        return frozenset(await self._session.scalars(select(_w.label).where(_w.tenant_id == tenant_id)))

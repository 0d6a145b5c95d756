"""Tenants: whom keys belong to and requests are billed to."""

from datetime import UTC, datetime

from sqlalchemy import select, update

from storage.database import Session
from storage.inserts import insert_once
from storage.models import tenants
from storage.texts import check_text
from storage.values import RejectedPolicy, Tenant


class Tenants:
    """The tenants, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ensure(self, id: str, name: str, rejected_prediction: RejectedPolicy = "free") -> Tenant:
        """The tenant of this id: made now, or as it was made before."""
        check_text("tenant id", id, 64)
        check_text("tenant name", name, 256)
        values = {"id": id, "name": name, "rejected_prediction": rejected_prediction, "created_at": datetime.now(UTC)}
        await insert_once(self._session, tenants, values)
        tenant = await self.get(id)
        assert tenant is not None
        return tenant

    async def get(self, id: str) -> Tenant | None:
        row = (await self._session.execute(select(tenants).where(tenants.c.id == id))).one_or_none()
        return None if row is None else Tenant(**row._mapping)

    async def list(self) -> list[Tenant]:
        rows = await self._session.execute(select(tenants).order_by(tenants.c.id))
        return [Tenant(**row._mapping) for row in rows]

    async def set_policy(self, id: str, rejected_prediction: RejectedPolicy) -> None:
        """Requests already open keep the policy they were opened under."""
        statement = update(tenants).where(tenants.c.id == id).values(rejected_prediction=rejected_prediction)
        await self._session.execute(statement)

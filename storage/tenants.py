"""Tenants: whom keys belong to and requests are billed to."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select, update

from storage.database import Session
from storage.inserts import insert_once
from storage.models import tenants
from storage.paging import Cursor, page
from storage.projects import Projects
from storage.texts import check_text
from storage.values import RejectedPolicy, Tenant


class Tenants:
    """The tenants, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        id: str,
        name: str,
        rejected_prediction: RejectedPolicy = "free",
        holdout_includes_prediction: bool = False,
    ) -> Tenant | None:
        """With its default project; None where the id is taken."""
        check_text("tenant id", id, 64)
        check_text("tenant name", name, 256)
        settings = {
            "rejected_prediction": rejected_prediction,
            "holdout_includes_prediction": holdout_includes_prediction,
        }
        values = {"id": id, "name": name, "created_at": datetime.now(UTC)} | settings
        if not await insert_once(self._session, tenants, values):
            return None
        await Projects(self._session, id).ensure_default()
        return await self.get(id)

    async def ensure(self, id: str, name: str, rejected_prediction: RejectedPolicy = "free") -> Tenant:
        """The tenant of this id: made now, or as it was made before."""
        tenant = await self.create(id, name, rejected_prediction) or await self.get(id)
        assert tenant is not None
        return tenant

    async def get(self, id: str, *, for_update: bool = False) -> Tenant | None:
        statement = select(tenants).where(tenants.c.id == id)
        row = (await self._session.execute(statement.with_for_update() if for_update else statement)).one_or_none()
        return None if row is None else Tenant(**row._mapping)

    async def list(self) -> list[Tenant]:
        rows = await self._session.execute(select(tenants).order_by(tenants.c.id))
        return [Tenant(**row._mapping) for row in rows]

    async def page(self, cursor: Cursor) -> "tuple[Sequence[Tenant], bool]":
        """Oldest first, and whether more follow."""
        rows, has_more = await page(self._session, select(tenants), tenants.c.created_at, tenants.c.id, cursor)
        return [Tenant(**row._mapping) for row in rows], has_more

    async def update(
        self,
        tenant: Tenant,
        name: str,
        rejected_prediction: RejectedPolicy,
        holdout_includes_prediction: bool = False,
    ) -> Tenant:
        """Requests already open keep what they were opened under."""
        check_text("tenant name", name, 256)
        return await self._change(
            tenant,
            name=name,
            rejected_prediction=rejected_prediction,
            holdout_includes_prediction=holdout_includes_prediction,
        )

    async def suspend(self, tenant: Tenant) -> Tenant:
        """Its keys are refused until it is resumed."""
        return await self._change(tenant, suspended_at=datetime.now(UTC))

    async def resume(self, tenant: Tenant) -> Tenant:
        return await self._change(tenant, suspended_at=None)

    async def _change(self, tenant: Tenant, **values: object) -> Tenant:
        changed = update(tenants).where(tenants.c.id == tenant.id)
        row = await self._session.execute(changed.values(version=tenant.version + 1, **values).returning(tenants))
        return Tenant(**row.one()._mapping)

"""Service accounts: the programs that a project's keys are made for."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Select, select, update

from storage.database import Session
from storage.ids import uuid7
from storage.models import service_accounts
from storage.paging import Cursor, page
from storage.texts import check_text
from storage.values import Role, ServiceAccount


class ServiceAccounts:
    """The service accounts of one project, in one unit of work. A deleted one is not found."""

    def __init__(self, session: Session, project_id: str) -> None:
        self._session, self._project_id = session, project_id

    async def create(self, name: str, role: Role) -> ServiceAccount:
        check_text("service account name", name, 256)
        values = {
            "id": f"svc_acct_{uuid7()}",
            "project_id": self._project_id,
            "name": name,
            "role": role,
            "created_at": datetime.now(UTC),
        }
        row = await self._session.execute(service_accounts.insert().values(values).returning(service_accounts))
        return ServiceAccount(**row.one()._mapping)

    async def get(self, id: str, *, for_update: bool = False) -> ServiceAccount | None:
        statement = self._all().where(service_accounts.c.id == id)
        row = (await self._session.execute(statement.with_for_update() if for_update else statement)).one_or_none()
        return None if row is None else ServiceAccount(**row._mapping)

    async def named(self, ids: Sequence[str]) -> dict[str, ServiceAccount]:
        """Those of these ids, by id."""
        rows = await self._session.execute(self._all().where(service_accounts.c.id.in_(ids)))
        return {row.id: ServiceAccount(**row._mapping) for row in rows}

    async def page(self, cursor: Cursor) -> tuple[list[ServiceAccount], bool]:
        """Oldest first, and whether more follow."""
        made, id = service_accounts.c.created_at, service_accounts.c.id
        rows, has_more = await page(self._session, self._all(), made, id, cursor)
        return [ServiceAccount(**row._mapping) for row in rows], has_more

    async def update(self, account: ServiceAccount, name: str, role: Role) -> ServiceAccount:
        check_text("service account name", name, 256)
        return await self._change(account, name=name, role=role)

    async def delete(self, account: ServiceAccount) -> None:
        """Its keys are the caller's to revoke."""
        await self._change(account, deleted_at=datetime.now(UTC))

    async def _change(self, account: ServiceAccount, **values: object) -> ServiceAccount:
        changed = update(service_accounts).where(service_accounts.c.id == account.id)
        values["version"] = account.version + 1
        row = await self._session.execute(changed.values(**values).returning(service_accounts))
        return ServiceAccount(**row.one()._mapping)

    def _all(self) -> Select[ServiceAccount]:
        of_project = service_accounts.c.project_id == self._project_id
        return select(service_accounts).where(of_project, service_accounts.c.deleted_at.is_(None))

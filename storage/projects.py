"""Projects: the parts of a tenant. Every tenant has a default one, which is never archived."""

from datetime import UTC, datetime

from sqlalchemy import Select, select, update

from storage.database import Session
from storage.ids import uuid7
from storage.inserts import insert_once
from storage.models import projects
from storage.paging import Cursor, page
from storage.texts import check_text
from storage.values import Project, default_project


class Projects:
    """The projects of one tenant, in one unit of work: of another tenant it finds nothing."""

    def __init__(self, session: Session, tenant_id: str) -> None:
        self._session, self._tenant_id = session, tenant_id

    async def ensure_default(self) -> None:
        values = {"name": "Default project", "is_default": True}
        await insert_once(self._session, projects, self._new(default_project(self._tenant_id)) | values)

    async def create(self, name: str) -> Project:
        check_text("project name", name, 256)
        values = self._new(f"proj_{uuid7()}") | {"name": name}
        row = await self._session.execute(projects.insert().values(values).returning(projects))
        return Project(**row.one()._mapping)

    async def get(self, id: str, *, for_update: bool = False) -> Project | None:
        statement = self._all().where(projects.c.id == id)
        row = (await self._session.execute(statement.with_for_update() if for_update else statement)).one_or_none()
        return None if row is None else Project(**row._mapping)

    async def page(self, cursor: Cursor, *, with_archived: bool = False) -> tuple[list[Project], bool]:
        """Oldest first, and whether more follow."""
        statement = self._all() if with_archived else self._all().where(projects.c.archived_at.is_(None))
        rows, has_more = await page(self._session, statement, projects.c.created_at, projects.c.id, cursor)
        return [Project(**row._mapping) for row in rows], has_more

    async def rename(self, project: Project, name: str) -> Project:
        check_text("project name", name, 256)
        return await self._change(project, name=name)

    async def archive(self, project: Project) -> Project:
        """For good: its keys have ended."""
        assert not project.is_default
        return await self._change(project, archived_at=datetime.now(UTC))

    async def _change(self, project: Project, **values: object) -> Project:
        changed = update(projects).where(projects.c.id == project.id, projects.c.tenant_id == self._tenant_id)
        row = await self._session.execute(changed.values(version=project.version + 1, **values).returning(projects))
        return Project(**row.one()._mapping)

    def _all(self) -> Select[Project]:
        return select(projects).where(projects.c.tenant_id == self._tenant_id)

    def _new(self, id: str) -> dict[str, object]:
        return {"id": id, "tenant_id": self._tenant_id, "created_at": datetime.now(UTC)}

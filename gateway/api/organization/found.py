"""The project, service account or key that a path names, of the acting tenant alone.

What another tenant owns gets the same answer as what does not exist.
"""

from dataclasses import dataclass

from starlette.requests import Request

from gateway.errors import Conflict, NotFound
from gateway.openai.organization_objects import Object
from gateway.organization import organization_of
from gateway.trail import record
from storage.api_keys import ApiKeys, KeyScope
from storage.database import Session
from storage.projects import Projects
from storage.service_accounts import ServiceAccounts
from storage.values import ApiKey, Project, ServiceAccount


@dataclass(frozen=True, slots=True)
class Place:
    """A project, and the unit of work it was found in."""

    session: Session
    tenant_id: str
    project: Project

    @property
    def keys(self) -> KeyScope:
        return KeyScope(self.tenant_id, ("inference",), self.project.id)

    def require_active(self) -> None:
        if self.project.archived_at is not None:
            raise Conflict("The project is archived; use another one.")

    async def record(
        self, request: Request, action: str, target: str, before: Object | None, after: Object | None
    ) -> None:
        ids = {"tenant_id": self.tenant_id, "project_id": self.project.id}
        await record(request, self.session, action, target, before, after, **ids)

    async def account(self, id: str, *, for_update: bool = False) -> ServiceAccount:
        account = await ServiceAccounts(self.session, self.project.id).get(id, for_update=for_update)
        if account is None:
            raise NotFound("No such service account in this project.")
        return account

    async def key(self, id: str, *, for_update: bool = False) -> ApiKey:
        key = await ApiKeys(self.session).get(id, self.keys, for_update=for_update)
        if key is None:
            raise NotFound("No such key in this project.")
        return key


async def place(request: Request, session: Session, project_id: str, *, for_update: bool = False) -> Place:
    """Raises NotFound."""
    tenant_id = await organization_of(request, session)
    project = await Projects(session, tenant_id).get(project_id, for_update=for_update)
    if project is None:
        raise NotFound("No such project in this organization.")
    return Place(session, tenant_id, project)

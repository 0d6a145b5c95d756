"""To whom a limited thing belongs."""

from dataclasses import dataclass

from sqlalchemy import null, select

from storage.database import Session
from storage.limits.values import Scope
from storage.models import api_keys, projects, tenants


@dataclass(frozen=True, slots=True)
class Owner:
    scope: Scope
    id: str
    tenant_id: str
    project_id: str | None = None


async def owner_of(session: Session, scope: Scope, id: str) -> Owner | None:
    """None where there is no such tenant, project or key."""
    found = {
        "tenant": select(tenants.c.id, null()).where(tenants.c.id == id),
        "project": select(projects.c.tenant_id, projects.c.id).where(projects.c.id == id),
        "key": select(api_keys.c.tenant_id, api_keys.c.project_id).where(api_keys.c.public_id == id),
    }[scope]
    row = (await session.execute(found)).one_or_none()
    return None if row is None else Owner(scope, id, row[0], row[1])

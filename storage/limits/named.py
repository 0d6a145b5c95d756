"""Who has limits, by name: what a page lists."""

from dataclasses import dataclass

from sqlalchemy import and_, func, select

from storage.database import Session
from storage.limits.rows import limits_of
from storage.limits.values import Subject
from storage.models import api_keys, limits, projects, tenants

_l = limits.c
MOST = 200


@dataclass(frozen=True, slots=True)
class Named:
    """`tenant_id`: whose it is."""

    subject: Subject
    name: str
    tenant_id: str


async def with_limits(session: Session, tenant_id: str | None) -> tuple[list[Named], bool]:
    """Of a tenant, or of all (None): tenants first, then projects, then keys; and whether there are more of them."""
    name = func.coalesce(tenants.c.name, projects.c.name, api_keys.c.name)
    tenant = func.coalesce(tenants.c.id, projects.c.tenant_id, api_keys.c.tenant_id)
    source = (
        limits.outerjoin(tenants, and_(_l.scope == "tenant", tenants.c.id == _l.scope_id))
        .outerjoin(projects, and_(_l.scope == "project", projects.c.id == _l.scope_id))
        .outerjoin(api_keys, and_(_l.scope == "key", api_keys.c.public_id == _l.scope_id))
    )
    statement = select(*limits.c, name.label("name"), tenant.label("tenant_id")).select_from(source)
    statement = statement.where(tenant.is_not(None) if tenant_id is None else tenant == tenant_id)
    ordered = statement.order_by(_l.scope.desc(), tenant, name, _l.scope_id).limit(MOST + 1)
    rows = (await session.execute(ordered)).all()
    found = [
        Named(Subject(row.scope, row.scope_id, limits_of(row._mapping)), row.name, row.tenant_id) for row in rows[:MOST]
    ]
    return found, len(rows) > MOST

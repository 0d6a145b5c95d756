"""An erased tenant leaves a tombstone: its id, its policy, and what the ledger says was used under it.

Names of everything it had are gone, its keys have ended for good, and nobody makes it new ones.
"""

from datetime import UTC, datetime

from sqlalchemy import func, literal, select, update

from storage.database import Session
from storage.models import UtcMicros, api_keys, projects, service_accounts, tenants
from storage.tenants import Tenants
from storage.values import Tenant

ERASED = "erased"


async def erase(session: Session, tenant: Tenant) -> Tenant:
    now = datetime.now(UTC)
    of_projects = select(projects.c.id).where(projects.c.tenant_id == tenant.id)
    moment = literal(now, UtcMicros)
    ended = func.coalesce(api_keys.c.revoked_at, moment)
    for statement in (
        update(api_keys).where(api_keys.c.tenant_id == tenant.id).values(name=ERASED, revoked_at=ended),
        update(service_accounts)
        .where(service_accounts.c.project_id.in_(of_projects))
        .values(name=ERASED, deleted_at=func.coalesce(service_accounts.c.deleted_at, moment)),
        update(projects).where(projects.c.tenant_id == tenant.id).values(name=ERASED),
        update(tenants)
        .where(tenants.c.id == tenant.id)
        .values(name=ERASED, erased_at=now, suspended_at=now, version=tenant.version + 1),
    ):
        await session.execute(statement)
    erased = await Tenants(session).get(tenant.id)
    assert erased is not None
    return erased


async def erased_since(session: Session, since: datetime) -> list[Tenant]:
    rows = await session.execute(select(tenants).where(tenants.c.erased_at >= since))
    return [Tenant(**row._mapping) for row in rows]

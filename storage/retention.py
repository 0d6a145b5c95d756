"""What is forgotten, a batch at a time, each batch in a unit of work of its own.

    usage    all entries of requests that were settled long ago: only what every roll-up has passed, so no sum changes
    audit    what was before and after, of old events: the chain still holds, and says that something was there
    users    the hashes of an erased tenant's end users

A request whose cost was corrected keeps its entries: corrections are told one by one. Each returns how much it did.
"""

from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, update

from storage.database import Database
from storage.models import audit_events, ledger_entries, of_kind
from storage.rollups.kept import forget, may_forget

BATCH = 200
_e, _a = ledger_entries.c, audit_events.c


async def forget_usage(db: Database, before: datetime, batch: int = BATCH) -> int:
    """Requests."""
    async with db.unit() as session:
        before = await may_forget(session, before)
        adjusted = ledger_entries.alias("adjusted")
        is_adjusted = (
            select(adjusted.c.entry_id)
            .where(adjusted.c.request_id == _e.request_id, of_kind(adjusted, "adjust"))
            .exists()
        )
        old = (of_kind(ledger_entries, "settle"), _e.at < before, ~is_adjusted)
        found = list(await session.scalars(select(_e.request_id).where(*old).order_by(_e.at).limit(batch)))
        if found:
            await forget(session, before)
            await session.execute(delete(ledger_entries).where(_e.request_id.in_(found)))
    return len(found)


async def erase_details(db: Database, before: datetime, tenant_id: str | None = None, batch: int = BATCH) -> int:
    """Events; of one tenant, or (None) of all."""
    wanted: list[ColumnElement[bool]] = [_a.at < before, _a.details.is_not(None)]
    if tenant_id is not None:
        wanted.append(_a.tenant_id == tenant_id)
    async with db.unit() as session:
        found = list(await session.scalars(select(_a.seq).where(*wanted).order_by(_a.seq).limit(batch)))
        if found:
            await session.execute(update(audit_events).where(_a.seq.in_(found)).values(details=None))
    return len(found)


async def forget_users(db: Database, tenant_id: str, batch: int = BATCH) -> int:
    """Requests that have ended: what still runs settles as it was opened."""
    settled = (of_kind(ledger_entries, "settle"), _e.tenant_id == tenant_id, _e.user_hash.is_not(None))
    async with db.unit() as session:
        found = list(await session.scalars(select(_e.request_id).where(*settled).limit(batch)))
        if found:
            await session.execute(update(ledger_entries).where(_e.request_id.in_(found)).values(user_hash=None))
    return len(found)

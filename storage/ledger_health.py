"""How the ledger does, in figures cheap enough to be asked for every few seconds."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ScalarSelect, func, select

from storage.database import Session
from storage.ids import floor_of
from storage.models import ledger_entries, of_kind


@dataclass(frozen=True, slots=True)
class LedgerHealth:
    unsettled: int
    """Requests that are open."""


async def ledger_health(session: Session, since: datetime) -> LedgerHealth:
    """Of requests that began since then: their ids sort by time, so that two ranges of two indexes say it."""
    begun, ended = (_count(kind, floor_of(since)) for kind in ("open", "settle"))
    (unsettled,) = (await session.execute(select(begun - ended))).one()
    return LedgerHealth(unsettled)


def _count(kind: str, first: str) -> ScalarSelect[int]:
    entries = ledger_entries.alias(kind)
    statement = select(func.count()).select_from(entries).where(of_kind(entries, kind), entries.c.request_id >= first)
    return statement.scalar_subquery()

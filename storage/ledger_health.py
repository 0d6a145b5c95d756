"""How the ledger does, in figures cheap enough to be asked for every few seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ScalarSelect, Select, func, select

from storage.database import Session
from storage.ids import floor_of
from storage.models import ledger_entries, of_kind, rollup_state


@dataclass(frozen=True, slots=True)
class LedgerHealth:
    unsettled: int
    """Requests that are open."""
    rolled_up: Mapping[str, datetime]
    """Roll-up → every hour that ends at or before this is in it."""


async def ledger_health(session: Session, since: datetime) -> LedgerHealth:
    """Of requests that began since then."""
    (unsettled,) = (await session.execute(unsettled_since(since))).one()
    marks = await session.execute(select(rollup_state.c.name, rollup_state.c.hours_through))
    return LedgerHealth(unsettled, {name: at for name, at in marks})


def unsettled_since(since: datetime) -> Select[int]:
    """Ids of requests sort by time, so that two ranges of two indexes say it."""
    begun, ended = (_count(kind, floor_of(since)) for kind in ("open", "settle"))
    return select(begun - ended)


def _count(kind: str, first: str) -> ScalarSelect[int]:
    entries = ledger_entries.alias(kind)
    statement = select(func.count()).select_from(entries).where(of_kind(entries, kind), entries.c.request_id >= first)
    return statement.scalar_subquery()

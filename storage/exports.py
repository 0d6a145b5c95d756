"""The ledger as its own outbox: settlements and adjustments in one order, from where a reader stopped.

The order is by (at, entry_id). An entry's time is when the ledger took it, as its gateway's clock says, so one may
still appear before another that is there already; `MARGIN` later none does, and only what is older is read. Whoever
keeps the place of the last entry it took can therefore never miss one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, literal, or_, select, tuple_, update

from storage.database import Session
from storage.errors import UnknownCursor
from storage.inserts import insert_once
from storage.models import EPOCH, export_cursors, ledger_entries, of_kind

MARGIN = timedelta(seconds=120)
"""Longer than clocks differ and a transaction lasts, together."""
KINDS = ("settle", "adjust")
_entries = ledger_entries.c
_cursors = export_cursors.c


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stopped: the last entry it took."""

    at: datetime
    entry_id: str


BEGINNING = Place(EPOCH, "")


@dataclass(frozen=True, slots=True)
class Span:
    """Entries after a place and before a time, of one tenant or (None) of all."""

    after: Place
    before: datetime
    tenant_id: str | None = None


class Exports:
    """What there is to tell, in one view."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def entries(self, span: Span, limit: int) -> list[Row[Any]]:
        """The first `limit` of them, whole rows."""
        # Each kind has an index of its own: one statement for both would use neither.
        found = [(await self._session.execute(_of(kind, span, limit))).all() for kind in KINDS]
        return list(islice(merge(*found, key=lambda row: (row.at, row.entry_id)), limit))

    async def place_of(self, entry_id: str, tenant_id: str | None) -> Place:
        """Raises UnknownCursor, also for another tenant's entry."""
        statement = select(_entries.at).where(_entries.entry_id == entry_id, _is_told())
        at = await self._session.scalar(_scoped(statement, tenant_id))
        if at is None:
            raise UnknownCursor("after")
        return Place(at, entry_id)

    async def reached(self, name: str) -> Place:
        """How far the reader of this name has come."""
        statement = select(_cursors.at, _cursors.entry_id).where(_cursors.name == name)
        row = (await self._session.execute(statement)).one_or_none()
        return BEGINNING if row is None else Place(row.at, row.entry_id)


class Turn:
    """The right to be the one who sends, leased; in one unit of work."""

    def __init__(self, session: Session, name: str, owner: str) -> None:
        self._session, self._name, self._owner = session, name, owner

    async def take(self, now: datetime, lease: timedelta) -> Place | None:
        """From where to go on; None while another gateway has the turn."""
        first = {"name": self._name, "at": EPOCH, "entry_id": "", "owner": "", "lease_until": EPOCH}
        await insert_once(self._session, export_cursors, first)
        is_free = or_(_cursors.owner == self._owner, _cursors.lease_until <= now)
        taken = self._change().where(is_free).values(owner=self._owner, lease_until=now + lease)
        row = (await self._session.execute(taken.returning(_cursors.at, _cursors.entry_id))).one_or_none()
        return None if row is None else Place(row.at, row.entry_id)

    async def move(self, to: Place) -> bool:
        """False where another has taken the turn meanwhile: it goes on from where we were."""
        moved = self._change().where(_cursors.owner == self._owner).values(at=to.at, entry_id=to.entry_id)
        return (await self._session.execute(moved.returning(_cursors.name))).first() is not None

    async def give_up(self) -> None:
        """Let another begin at once."""
        await self._session.execute(self._change().where(_cursors.owner == self._owner).values(lease_until=EPOCH))

    def _change(self) -> Update:
        return update(export_cursors).where(_cursors.name == self._name)


def _of(kind: str, span: Span, limit: int) -> Select[Any]:
    after = tuple_(literal(span.after.at, _entries.at.type), literal(span.after.entry_id, _entries.entry_id.type))
    statement = (
        select(ledger_entries)
        .where(of_kind(ledger_entries, kind), _entries.at >= span.after.at, _entries.at < span.before)
        .where(tuple_(_entries.at, _entries.entry_id) > after)
        .order_by(_entries.at, _entries.entry_id)
        .limit(limit)
    )
    return _scoped(statement, span.tenant_id)


def _scoped(statement: Select[Any], tenant_id: str | None) -> Select[Any]:
    return statement if tenant_id is None else statement.where(_entries.tenant_id == tenant_id)


def _is_told() -> ColumnElement[bool]:
    return or_(*(of_kind(ledger_entries, kind) for kind in KINDS))


def last_of(entries: Sequence[Row[Any]]) -> Place:
    return Place(entries[-1].at, entries[-1].entry_id)

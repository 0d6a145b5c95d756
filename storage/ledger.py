"""The ledger: one durable `open` a request before its first byte, exactly one `settle`, nothing ever changed.

That there is at most one of each is a constraint of the database, so owner, reconciler and a repeated call may
race: one of them writes, the others are told so.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row as Found
from sqlalchemy import Select, func, select

from storage.database import Database, Session
from storage.entries import (
    checkpoint_values,
    copied,
    copied_from,
    interrupted,
    open_entry_from,
    open_values,
    settle_values,
)
from storage.errors import UnknownRequest
from storage.ids import uuid7
from storage.inserts import insert_once
from storage.ledger_rules import find_problems
from storage.models import ledger_entries, of_kind
from storage.values import Figures, OpenEntry, Problem, Settlement

_entries = ledger_entries.c


Row = Mapping[str, Any]
"""An entry as its columns."""
LAST = 2**31 - 1
"""A settlement's place in its request."""


def open_row(entry: OpenEntry) -> dict[str, Any]:
    return _row("open", 0, open_values(entry, entry.at or datetime.now(UTC)))


def settle_row(entry: OpenEntry, settlement: Settlement) -> dict[str, Any]:
    values = settle_values(settlement, settlement.at or datetime.now(UTC))
    return _row("settle", LAST, copied_from(entry) | values)


def checkpoint_row(entry: OpenEntry, number: int, figures: Figures) -> dict[str, Any]:
    values = checkpoint_values(figures, figures.generated_tokens, figures.delivered_tokens, datetime.now(UTC))
    return _row("checkpoint", number, copied_from(entry) | values)


async def write_row(db: Database, row: Row) -> bool:
    """Committed in a unit of work of its own, or with others' rows. False where the request has such a one already."""
    return await db.append(ledger_entries, row)


def write_row_now(db: Database, row: Row) -> bool:
    """True where that is done without having waited; False where nothing was."""
    return db.append_now(ledger_entries, row) is not None


class Ledger:
    """The ledger, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def open(self, entry: OpenEntry) -> bool:
        """False where the request was already open."""
        return await insert_once(self._session, ledger_entries, open_row(entry))

    async def checkpoint(
        self,
        request_id: str,
        generated: int,
        delivered: int,
        figures: Figures | None = None,
        at: datetime | None = None,
    ) -> None:
        """How far a request has come: what is billed if its gateway dies."""
        opened = await self._opened(request_id)
        last = await self._session.scalar(
            select(func.max(_entries.seq)).where(
                _entries.request_id == request_id, of_kind(ledger_entries, "checkpoint")
            )
        )
        values = checkpoint_values(figures or Figures(), generated, delivered, at or datetime.now(UTC))
        await self._append("checkpoint", (last or 0) + 1, copied(opened) | values)

    async def settle(self, settlement: Settlement) -> bool:
        """False where it is settled already; the race is never an error. Raises UnknownRequest."""
        return await self._settle(await self._opened(settlement.request_id), settlement)

    async def unsettled(self, owner: str | None = None) -> list[OpenEntry]:
        """Open requests, oldest first; of one owner, or of all."""
        rows = await self._session.execute(_unsettled(None if owner is None else [owner]))
        return [open_entry_from(row) for row in rows]

    async def reconcile(self, dead: Collection[str]) -> int:
        """Settle what dead owners left open, from each request's last checkpoint; returns how many.

        Visible, and so billed, is what was surely delivered.
        """
        opened = (await self._session.execute(_unsettled(dead))).all()
        settled = [await self._interrupt(row) for row in opened]
        return sum(settled)

    async def verify(self) -> list[Problem]:
        """Every entry that breaks a rule of the ledger; empty is proof."""
        return await find_problems(self._session)

    async def _interrupt(self, opened: Found[Any]) -> bool:
        statement = (
            select(ledger_entries)
            .where(_entries.request_id == opened.request_id, of_kind(ledger_entries, "checkpoint"))
            .order_by(_entries.seq.desc())
            .limit(1)
        )
        last = (await self._session.execute(statement)).one_or_none()
        return await self._settle(opened, interrupted(opened, last))

    async def _opened(self, request_id: str) -> Found[Any]:
        statement = select(ledger_entries).where(_entries.request_id == request_id, of_kind(ledger_entries, "open"))
        row = (await self._session.execute(statement)).one_or_none()
        if row is None:
            raise UnknownRequest(f"request {request_id} was never opened in this ledger")
        return row

    async def _settle(self, opened: Found[Any], settlement: Settlement) -> bool:
        values = settle_values(settlement, settlement.at or datetime.now(UTC))
        return await self._append("settle", LAST, copied(opened) | values)

    async def _append(self, kind: str, seq: int, values: dict[str, Any]) -> bool:
        return await insert_once(self._session, ledger_entries, _row(kind, seq, values))


def _row(kind: str, seq: int, values: dict[str, Any]) -> dict[str, Any]:
    return values | {"entry_id": uuid7(), "kind": kind, "seq": seq}


def _unsettled(owners: Collection[str] | None) -> Select[Any]:
    settled = ledger_entries.alias("settled")
    is_settled = (
        select(settled.c.entry_id)
        .where(settled.c.request_id == _entries.request_id, of_kind(settled, "settle"))
        .exists()
    )
    statement = select(ledger_entries).where(of_kind(ledger_entries, "open"), ~is_settled).order_by(_entries.entry_id)
    return statement if owners is None else statement.where(_entries.owner.in_(owners))

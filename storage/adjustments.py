"""Corrections of what a request cost: entries of their own, since nothing in the ledger is ever changed.

They count in the month in which they were made, and stay as long as the ledger.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, select

from storage.database import Session
from storage.entries import copied
from storage.errors import UnknownRequest
from storage.ids import uuid7
from storage.ledger import LAST
from storage.models import ledger_entries, of_kind
from storage.texts import check_text

_e = ledger_entries.c


@dataclass(frozen=True, slots=True)
class Adjustment:
    entry_id: str
    request_id: str
    tenant_id: str
    micros: int
    """Added to the request's cost; negative: given back."""
    reason: str
    author: str
    """The public id of a key."""
    at: datetime


class Adjustments:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, request_id: str, micros: int, reason: str, author: str) -> Adjustment | None:
        """None while the request is not settled. Raises UnknownRequest."""
        check_text("reason", reason, 256)
        settled = (await self._session.execute(_of(request_id, "settle"))).one_or_none()
        if settled is None:
            if (await self._session.execute(_of(request_id, "open"))).one_or_none() is None:
                raise UnknownRequest(f"request {request_id} was never opened in this ledger")
            return None
        made = Adjustment(uuid7(), request_id, settled.tenant_id, micros, reason, author, datetime.now(UTC))
        entry = copied(settled) | asdict(made) | {"kind": "adjust", "seq": LAST}
        await self._session.execute(ledger_entries.insert().values(entry))
        return made

    async def of_tenant(self, tenant_id: str, start: datetime, end: datetime) -> list[Adjustment]:
        """Made in [start, end), in their order."""
        made = (_e.tenant_id == tenant_id, _e.at >= start, _e.at < end)
        rows = await self._session.execute(_adjustments().where(*made).order_by(_e.at, _e.entry_id))
        return [_adjustment(row) for row in rows]


def _adjustments() -> Select[Any]:
    return select(ledger_entries).where(of_kind(ledger_entries, "adjust"))


def _of(request_id: str, kind: str) -> Select[Any]:
    return select(ledger_entries).where(_e.request_id == request_id, of_kind(ledger_entries, kind))


def _adjustment(row: Row[Any]) -> Adjustment:
    return Adjustment(row.entry_id, row.request_id, row.tenant_id, row.micros, row.reason, row.author, row.at)

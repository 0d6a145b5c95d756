"""The entries of one request."""

from typing import Any

from sqlalchemy import Row, select

from storage.database import Session
from storage.models import ledger_entries

_e = ledger_entries.c


async def entries_of(session: Session, request_id: str) -> list[Row[Any]]:
    """Open, checkpoints, settlement, adjustments. Empty where there is no such request."""
    statement = select(ledger_entries).where(_e.request_id == request_id).order_by(_e.seq, _e.entry_id)
    return list(await session.execute(statement))

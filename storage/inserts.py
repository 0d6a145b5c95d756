"""Inserting what may be there already: a constraint decides a race, and losing it is an answer, not an error."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from storage.database import Session


async def insert_once(session: Session, table: Table, values: Mapping[str, Any]) -> bool:
    """True where this call wrote the row, False where a unique row was there before."""
    insert = postgresql.insert if session.dialect.name == "postgresql" else sqlite.insert
    result = await session.execute(insert(table).values(**values).on_conflict_do_nothing())
    return result.rowcount == 1

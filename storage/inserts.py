"""Inserting what may be there already: a constraint decides a race, and losing it is an answer, not an error."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Table, literal
from sqlalchemy.dialects import postgresql, sqlite

from storage.database import Session


async def insert_once(session: Session, table: Table, values: Mapping[str, Any]) -> bool:
    """True where this call wrote the row, False where a unique row was there before."""
    insert = postgresql.insert if session.dialect.name == "postgresql" else sqlite.insert
    # The values as parameters of one statement: as its parts they would be examined anew each time.
    statement = insert(table).on_conflict_do_nothing().returning(literal(1))
    return (await session.execute(statement, dict(values))).first() is not None


def upsert(session: Session, table: Table, change: Callable[[Any], Mapping[str, Any]]) -> Any:
    """An insert that changes the row it meets: `change` says how, from the columns of the new one."""
    insert = postgresql.insert if session.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table)
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=change(statement.excluded))

"""Writing sums: what is there under the same key is replaced, or left alone where it is but a name."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Executable, Table
from sqlalchemy.dialects import postgresql, sqlite

from storage.database import Session


async def write(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        await session.execute(_statement(table, session.dialect.name), rows)


@cache
def _statement(table: Table, dialect: str) -> Executable:
    """Made once a table: building it takes longer than running it."""
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    if "at" not in table.c:
        return insert.on_conflict_do_nothing()
    key = list(table.primary_key)
    change = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=key, set_=change)

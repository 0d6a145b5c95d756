"""Inserting what may be there already: a constraint decides a race, and losing it is an answer, not an error."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Executable, Table, literal
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

Session = AsyncConnection


async def insert_once(session: Session, table: Table, values: Mapping[str, Any]) -> bool:
    """True where this call wrote the row, False where a unique row was there before."""
    insert = postgresql.insert if session.dialect.name == "postgresql" else sqlite.insert
    # The values as parameters of one statement: as its parts they would be examined anew each time.
    statement = insert(table).on_conflict_do_nothing().returning(literal(1))
    return (await session.execute(statement, dict(values))).first() is not None


async def insert_each(session: Session, rows: Sequence[tuple[Table, Mapping[str, Any]]]) -> list[bool]:
    """As `insert_once` of each, with one statement for all that have the same columns."""
    shapes: dict[tuple[Table, tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for table, values in rows:
        shapes.setdefault((table, tuple(values)), []).append(values)
    new: set[tuple[Any, ...]] = set()
    for (table, _), alike in shapes.items():
        insert = postgresql.insert if session.dialect.name == "postgresql" else sqlite.insert
        statement = insert(table).on_conflict_do_nothing().returning(*table.primary_key)
        found = await session.execute(statement, [dict(values) for values in alike])
        new |= {(table, *row) for row in found}
    return [(table, *(values[column.name] for column in table.primary_key)) in new for table, values in rows]


class Upsert:
    """An insert that changes the row it meets: `change` says how, from the columns of the new one.

    Made once, as every statement that a request waits for: building one takes longer than running it.
    """

    def __init__(self, table: Table, change: Callable[[Any], Mapping[str, Any]]) -> None:
        key = list(table.primary_key)
        for_postgres, for_sqlite = postgresql.insert(table), sqlite.insert(table)
        self._statements: dict[str, Executable] = {
            "postgresql": for_postgres.on_conflict_do_update(index_elements=key, set_=change(for_postgres.excluded)),
            "sqlite": for_sqlite.on_conflict_do_update(index_elements=key, set_=change(for_sqlite.excluded)),
        }

    async def run(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        await session.execute(self._statements[session.dialect.name], rows)

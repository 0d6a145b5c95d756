"""Single rows into SQLite, each a transaction of its own, by the shortest way there is.

    a statement's text and the types of its parameters are worked out once a table; then it is one call of the driver,
    which begins, writes and commits: some 50 µs, where a unit of work takes ten times that

Only where no commit waits for the disk. Whatever goes wrong (the write lock is held, the disk is full) is raised as
the driver says it: the caller then takes the long way, which waits, and names what is wrong.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Table, literal
from sqlalchemy.dialects import sqlite

from storage.inline_sqlite import COMMITS_A_CHECKPOINT, PRAGMAS, checkpoint

Process = Callable[[Any], Any]
Failure = sqlite3.Error


class Appender:
    def __init__(self, path: str, synchronous: str) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        for pragma in (*PRAGMAS, "foreign_keys=ON", f"synchronous={synchronous}"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._prepared: dict[tuple[str, ...], tuple[str, list[tuple[str, Process | None]]]] = {}
        self._num_rows = 0

    def append(self, table: Table, values: Mapping[str, Any]) -> bool:
        """False where a unique row was there before. Raises Failure."""
        text, parameters = self._prepare(table, values)
        row = tuple(process(values[name]) if process else values[name] for name, process in parameters)
        is_new = bool(self._connection.execute(text, row).fetchall())
        self._num_rows += 1
        if self._num_rows % COMMITS_A_CHECKPOINT == 0:
            asyncio.get_running_loop().run_in_executor(None, checkpoint, self._path)
        return is_new

    def close(self) -> None:
        self._connection.close()

    def _prepare(self, table: Table, values: Mapping[str, Any]) -> tuple[str, list[tuple[str, Process | None]]]:
        key = (table.name, *values)
        if key not in self._prepared:
            dialect = sqlite.dialect()
            statement = sqlite.insert(table).on_conflict_do_nothing().returning(literal(1))
            compiled = statement.compile(dialect=dialect, column_keys=list(values))
            types = {name: table.c[name].type.dialect_impl(dialect) for name in values}
            names = [name for name in compiled.positiontup or () if name in types]
            assert len(names) == len(values)
            text = str(compiled).replace("RETURNING ?", "RETURNING 1")
            self._prepared[key] = text, [(name, types[name].bind_processor(dialect)) for name in names]
        return self._prepared[key]

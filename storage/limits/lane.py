"""The short way into SQLite for what every limited request waits for: decide and hold.

A unit of work costs a dozen turns through SQLAlchemy, many times what SQLite itself needs. Here the same statements
are compiled once, and run on a connection of its own where they are asked for. Nothing in between waits, so in this
process a unit is never interrupted by another. Where the write lock is held elsewhere, `run` says so at once, and
the caller takes the long way, which waits.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import make_url

from storage.database import Session
from storage.errors import away
from storage.inline_sqlite import COMMITS_A_CHECKPOINT, PRAGMAS, checkpoint
from storage.models import EPOCH, MICROSECOND

T = TypeVar("T")


class Found:
    """A row."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: list[str], values: tuple[Any, ...]) -> None:
        self._names, self._values = names, values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getattr__(self, name: str) -> Any:
        return self._mapping[name]

    @property
    def _mapping(self) -> dict[str, Any]:
        return dict(zip(self._names, self._values, strict=True))


class Lane:
    """Stands in for a session in `Rates`, `Budgets` and `usages`, whose statements have all values as parameters."""

    dialect = sqlite.dialect(paramstyle="named")

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        for pragma in (*PRAGMAS, "journal_mode=WAL", "synchronous=NORMAL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._compiled: dict[tuple[Any, ...], str] = {}
        self._num_commits = 0

    @classmethod
    def of(cls, url: str, durability: str) -> "Lane | None":
        """None for another database, and where every commit waits for the disk."""
        parsed = make_url(url)
        is_short = parsed.get_backend_name() == "sqlite" and durability == "process"
        return cls(str(parsed.database)) if is_short else None

    def run(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T | None:
        """What `work` comes to, done and committed; None where another holds the write lock. Raises StorageAway."""
        if not self._begin():
            return None
        try:
            result = _at_once(work(cast(Session, self)))
            self._commit()
            return result
        finally:
            self._rollback()

    async def execute(self, statement: Executable, told: Any = None) -> Iterator[Found]:
        """Raises StorageAway."""
        several = told if isinstance(told, list) else [told or {}]
        rows: list[Found] = []
        for parameters in several:
            values = dict(_spread(parameters))
            cursor = self._run(self._text(statement, parameters), values)
            names = [column[0] for column in cursor.description or ()]
            rows += [Found(names, row) for row in cursor]
        return iter(rows)

    def close(self) -> None:
        self._connection.close()

    def _begin(self) -> bool:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True

    def _commit(self) -> None:
        self._run("COMMIT", {})
        self._num_commits += 1
        if self._num_commits % COMMITS_A_CHECKPOINT == 0:
            asyncio.get_running_loop().run_in_executor(None, checkpoint, self._path)

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _run(self, text: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(text, values)
        except sqlite3.Error as error:
            raise away(error) from error

    def _text(self, statement: Any, parameters: Mapping[str, Any]) -> str:
        sizes = [(name, len(value)) for name, value in parameters.items() if isinstance(value, list)]
        key = (statement, *parameters, *sizes)
        if key not in self._compiled:
            compiled = statement.compile(dialect=self.dialect, column_keys=list(parameters))
            self._compiled[key] = compiled.construct_expanded_state(dict(parameters)).statement
        return self._compiled[key]


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """On this connection nothing waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise AssertionError("a unit of work on the short way has waited")


def _spread(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """As SQLAlchemy names the parts of a list, and keeps times."""
    for name, value in parameters.items():
        if isinstance(value, list):
            yield from ((f"{name}_{index}", one) for index, one in enumerate(value, 1))
        else:
            yield name, (value - EPOCH) // MICROSECOND if isinstance(value, datetime) else value

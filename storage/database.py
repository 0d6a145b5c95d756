"""One database, SQLite or PostgreSQL, and its units of work.

`unit()` is one transaction and the only commit; `view()` only reads. SQLite has one writer: the writing pool holds a
single connection and every transaction on it takes the write lock at its start, so two units of one process queue
instead of failing half-way. `append` writes single rows, of which those that come together share a transaction.
Whatever the driver raises because the database is away becomes `StorageAway`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal

from sqlalchemy import Table, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from storage.appender import Appender, Failure
from storage.batches import Batches
from storage.engines import postgres_engine, sqlite_appender, sqlite_reader, sqlite_writer
from storage.errors import StorageAway, away
from storage.inserts import insert_each
from storage.schema import migrate_sqlite, refuse_outdated

Durability = Literal["process", "power"]
"""process: survives any `kill -9` of this program; power: survives the loss of power too."""
Session = AsyncConnection
PATIENCE = 5.0
"""Seconds to wait for a connection. Who must answer sooner sets a timeout of its own."""


class Database:
    """Open with `await Database.open(url)`; close before the program ends."""

    def __init__(
        self, writer: AsyncEngine, reader: AsyncEngine, durability: Durability, appender: Appender | None = None
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._appender = appender
        self._rows = Batches(self._append_all)
        self.durability: Durability = durability

    @classmethod
    async def open(cls, url: str, *, durability: Durability = "process") -> "Database":
        """SQLite (`sqlite+aiosqlite:///path`) is migrated first; PostgreSQL (`postgresql+psycopg://…`) never is.

        PostgreSQL always has `power`. Raises SchemaOutdated, StorageAway.
        """
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            migrate_sqlite(parsed)
            writer, reader = sqlite_writer(parsed, durability), sqlite_reader(parsed)
            return cls(writer, reader, durability, sqlite_appender(parsed, durability))
        database = cls.of_postgres(url)
        try:
            async with database.view() as session:
                await session.run_sync(refuse_outdated)
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    def of_postgres(cls, url: str) -> "Database":
        """Without asking whether it is there, or has this program's schema."""
        engine = postgres_engine(make_url(url))
        reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        return cls(engine, reader, "power")

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[Session]:
        """One unit of work: committed when the block ends well, rolled back when it raises."""
        with _away():
            connection = await self._connect(self._writer)
            try:
                async with connection.begin():
                    yield connection
            finally:
                await _let_go(connection)

    def append_now(self, table: Table, values: Mapping[str, Any]) -> bool | None:
        """As `append`, without waiting for anything; None where that cannot be, and nothing was written."""
        if self._appender is None:
            return None
        with suppress(Failure):
            return self._appender.append(table, values)
        return None

    async def append(self, table: Table, values: Mapping[str, Any]) -> bool:
        """One row, committed. False where a unique row was there before. Who is cancelled does not undo it."""
        told = self.append_now(table, values)
        return await self._rows.add((table, values)) if told is None else told

    async def _append_all(self, rows: Sequence[tuple[Table, Mapping[str, Any]]]) -> list[bool]:
        async with self.unit() as session:
            return await insert_each(session, rows)

    @asynccontextmanager
    async def view(self) -> AsyncIterator[Session]:
        """One consistent look. Writing in it fails."""
        with _away():
            connection = await self._connect(self._reader)
            try:
                yield connection
            finally:
                await _let_go(connection)

    async def ping(self) -> None:
        """Raises StorageAway where the database does not answer within a second."""
        try:
            async with asyncio.timeout(1.0), self.view() as session:
                await session.execute(text("SELECT 1"))
        except TimeoutError as error:
            raise StorageAway("the database did not answer within a second") from error

    async def close(self) -> None:
        await self._rows.close()
        if self._appender is not None:
            self._appender.close()
        await self._writer.dispose()
        await self._reader.dispose()

    async def _connect(self, engine: AsyncEngine) -> AsyncConnection:
        try:
            async with asyncio.timeout(PATIENCE):
                return await engine.connect()
        except TimeoutError as error:
            raise StorageAway(f"no connection to the database within {PATIENCE:g} s") from error


@contextmanager
def _away() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise away(error.orig) from error
    except PoolTimeout as error:
        raise StorageAway("every connection to the database is busy") from error


async def _let_go(connection: AsyncConnection) -> None:
    """Also when the caller is being cancelled: SQLite's writer has only this connection."""
    await asyncio.shield(asyncio.ensure_future(connection.close()))

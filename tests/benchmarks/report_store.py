"""Two databases filled with the same rows and roll-ups, by the shortest way into each; for benchmarks alone."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql
from sqlalchemy import Table

from storage.models import EPOCH, ledger_entries
from storage.schema import upgrade
from tests.storage.postgres import Cluster

MICROSECOND = 1_000_000


class Store(Protocol):
    name: str
    url: str

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None: ...

    def commit(self) -> None: ...

    def finish(self) -> None:
        """Everything is in."""
        ...

    def make_cold(self) -> None: ...


class SqliteStore:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        path = folder / "specgate.db"
        self.url = f"sqlite+aiosqlite:///{path}"
        upgrade(self.url)
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("synchronous=OFF", "cache_size=-200000", "wal_autocheckpoint=10000"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._indexes = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE tbl_name = ? AND type = 'index' AND sql IS NOT NULL",
            [ledger_entries.name],
        ).fetchall()
        for name, _ in self._indexes:
            self._connection.execute(f"DROP INDEX {name}")

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def commit(self) -> None:
        self._connection.commit()

    def finish(self) -> None:
        for _, statement in self._indexes:
            self._connection.execute(statement)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def make_cold(self) -> None:
        """The page cache is the system's; a fresh process has none of its own."""


class PostgresStore:
    name = "postgres"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = f"{cluster.address}/bench".replace("postgresql://", "postgresql+psycopg://")
        with psycopg.connect(f"{cluster.address}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE bench")
        upgrade(self.url)
        self._connection = psycopg.connect(f"{cluster.address}/bench")
        found = self._connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND indexname NOT LIKE 'pk_%%'",
            [ledger_entries.name],
        )
        self._indexes = found.fetchall()
        for name, _ in self._indexes:
            self._connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self._connection.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def commit(self) -> None:
        self._connection.commit()

    def finish(self) -> None:
        for _, statement in self._indexes:
            self._connection.execute(statement)
        self._connection.commit()
        self._connection.autocommit = True
        self._connection.execute("VACUUM ANALYZE")
        self._connection.close()

    def make_cold(self) -> None:
        self._cluster.stop()
        self._cluster.start()


def insert_values(store: Store, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as storage makes them."""
    if rows:
        columns = list(rows[0])
        store.insert(table.name, columns, ([_plain(name, row[name]) for name in columns] for row in rows))


def _plain(name: str, value: Any) -> Any:
    if name in ("at", "hours_through", "days_through", "lease_until"):
        return round((value - EPOCH).total_seconds() * MICROSECOND)
    return value

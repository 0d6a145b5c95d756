"""How connections are made: what each database must be told on every new one.

SQLite: write-ahead log, so that readers never wait for the writer. Transactions are begun by us (the driver's own
habit of beginning late would let two writers deadlock). Parameters never appear in errors or logs.
"""

import asyncio
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from storage.appender import Appender
from storage.inline_sqlite import PRAGMAS, InlineConnection

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


def sqlite_writer(url: URL, durability: str) -> AsyncEngine:
    """One connection, which takes the write lock when a transaction begins."""
    engine = create_async_engine(
        url,
        async_creator=lambda: InlineConnection(str(url.database), waits_at_commit=durability == "power"),
        pool_size=1,
        max_overflow=0,
        pool_timeout=5,
        hide_parameters=True,
    )
    pragmas = ["journal_mode=WAL", f"synchronous={SYNCHRONOUS[durability]}", *PRAGMAS]
    _prepare(engine.sync_engine, pragmas, "BEGIN IMMEDIATE")
    _release_when_cut(engine.sync_engine)
    return engine


def sqlite_appender(url: URL, durability: str) -> Appender | None:
    """None where a commit waits for the disk: rows then share one."""
    return Appender(str(url.database), SYNCHRONOUS[durability]) if durability == "process" else None


def sqlite_migrator(url: URL) -> Engine:
    """For alembic: with the transaction begun by us, a migration that fails half-way leaves nothing behind."""
    engine = create_engine(url.set(drivername="sqlite"), poolclass=NullPool, hide_parameters=True)
    _prepare(engine, [], "BEGIN IMMEDIATE")
    return engine


def sqlite_reader(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=4, max_overflow=0, pool_timeout=5, hide_parameters=True)
    _prepare(engine.sync_engine, ["query_only=ON"], "BEGIN")
    return engine


def _release_when_cut(engine: Engine) -> None:
    """A caller cancelled inside a statement leaves it unfinished; SQLite would keep its lock even after `close`."""

    @event.listens_for(engine, "invalidate")
    def _invalidate(connection: Any, _record: Any, _error: BaseException | None) -> None:
        # Queued before it is awaited, so a second cancellation does not undo it.
        with suppress(Exception, asyncio.CancelledError):
            connection.rollback()


def postgres_engine(url: URL) -> AsyncEngine:
    """`pool_pre_ping`: a restarted server costs a reconnect, not a failed request."""
    engine = create_async_engine(
        url, pool_size=10, max_overflow=10, pool_timeout=5, pool_pre_ping=True, hide_parameters=True
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        # A server set to lose its last commits would break "committed before the first byte"; a stronger
        # setting than `on` (remote_apply) is left as it is.
        cursor = connection.cursor()
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        cursor.close()
        connection.commit()

    return engine


def _prepare(engine: Engine, pragmas: list[str], begin: str) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("busy_timeout=5000", "foreign_keys=ON", *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

"""Which schema a database has, and how it gets the one this program needs.

SQLite migrates when it is opened, under a file lock, after a copy of the file. PostgreSQL is migrated by
`specgate db upgrade` alone. Migrations only expand: a program older than the schema runs on it, so an unknown
(newer) revision is accepted.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from storage.errors import SchemaOutdated

LOCK_ID = 7_364_526_010
"""Key of PostgreSQL's advisory lock while migrating; any fixed number."""


def upgrade(url: str) -> str:
    """Bring any database to this program's schema; returns the revision it has then."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        migrate_sqlite(parsed)
        return head()
    engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": LOCK_ID})
        _migrate(connection)
    return head()


def refuse_outdated(connection: Connection) -> None:
    """Raise SchemaOutdated unless the schema is this program's or newer."""
    current = _current(connection)
    if _is_outdated(current):
        found = f"revision {current}" if current else "no SpecGate schema"
        raise SchemaOutdated(
            f"The database has {found}; this version needs {head()}. Run `specgate db upgrade` once, then start again."
        )


def migrate_sqlite(url: URL) -> None:
    """Runs in the caller's thread: alembic keeps its context in module state, and nothing else runs at start."""
    assert url.database, "a file is needed: sqlite+aiosqlite:///path"
    path = Path(url.database)
    # Made by us, so that nobody else can read it from its first moment.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    engine = create_engine(url.set(drivername="sqlite"), poolclass=NullPool)
    with _locked(path), engine.connect() as connection:
        current = _current(connection)
        if not _is_outdated(current):
            return
        if current is not None:
            _copy(path, current)
        _migrate(connection)
        connection.commit()


def head() -> str:
    """The revision this program needs."""
    revision = _scripts().get_current_head()
    assert revision is not None
    return revision


def _is_outdated(current: str | None) -> bool:
    known = {script.revision for script in _scripts().walk_revisions()}
    return current is None or (current in known and current != head())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _copy(path: Path, revision: str) -> None:
    copy = path.with_name(f"{path.name}.before-upgrade-from-{revision}")
    os.close(os.open(copy, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)

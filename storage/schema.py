"""Which schema a database has, and how it gets the one this program needs.

SQLite migrates when it is opened, under a file lock, after a copy of the file. PostgreSQL is migrated by
`specgate db upgrade` alone. Migrations only expand: a program older than the schema runs on it, so an unknown
(newer) revision is accepted. `migrations` is the folder they lie in; tests give that of a later release.
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
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from storage.engines import sqlite_migrator
from storage.errors import SchemaOutdated, StorageAway

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_ID = 7_364_526_010
"""Key of PostgreSQL's advisory lock while migrating; any fixed number."""


def upgrade(url: str, migrations: Path = MIGRATIONS) -> str:
    """Bring any database to this program's schema, or leave a newer one; returns the revision it then has."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return migrate_sqlite(parsed, migrations)
    engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": LOCK_ID})
            return _migrate(connection, migrations)
    except OperationalError as error:
        raise StorageAway(str(error.orig)) from error


def refuse_outdated(connection: Connection, migrations: Path = MIGRATIONS) -> None:
    """Raise SchemaOutdated unless the schema is this program's or newer."""
    current = _current(connection)
    if _is_outdated(current, migrations):
        found = f"revision {current}" if current else "no SpecGate schema"
        raise SchemaOutdated(
            f"The database has {found}; this version needs {head(migrations)}. "
            "Run `specgate db upgrade` once, then start again."
        )


def migrate_sqlite(url: URL, migrations: Path = MIGRATIONS) -> str:
    """Runs in the caller's thread: alembic keeps its context in module state, and nothing else runs at start."""
    if not url.database or url.database == ":memory:":
        raise StorageAway("SQLite needs a file: sqlite+aiosqlite:///path/to/specgate.db")
    path = Path(url.database)
    # Made by us, so that nobody else can read it from its first moment.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with _locked(path), sqlite_migrator(url).begin() as connection:
        current = _current(connection)
        if current is not None and _is_outdated(current, migrations):
            _copy(path, current)
        return _migrate(connection, migrations)


def head(migrations: Path = MIGRATIONS) -> str:
    """The revision this program needs."""
    revision = ScriptDirectory(str(migrations)).get_current_head()
    assert revision is not None
    return revision


def _is_outdated(current: str | None, migrations: Path) -> bool:
    known = {script.revision for script in ScriptDirectory(str(migrations)).walk_revisions()}
    return current is None or (current in known and current != head(migrations))


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(connection: Connection, migrations: Path) -> str:
    current = _current(connection)
    if current is not None and not _is_outdated(current, migrations):
        return current
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    command.upgrade(config, "head")
    return head(migrations)


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

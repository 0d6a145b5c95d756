"""A database gets its schema once, keeps its data through an upgrade, and an old one is refused by name."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from storage import Database, SchemaOutdated
from storage.migrations.__main__ import write_migration
from storage.models import metadata
from storage.schema import MIGRATIONS, head, refuse_outdated, upgrade
from storage.tenants import Tenants
from tests.storage.postgres import Server

ROOT = Path(__file__).parents[2]
LATER = """
import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("note", sa.String(), nullable=False, server_default="none"))
"""


def _sync(url: str) -> str:
    return url.replace("sqlite+aiosqlite", "sqlite")


def test_the_migrations_make_what_the_models_say(url: str) -> None:
    engine = create_engine(_sync(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


@pytest.mark.anyio
async def test_sqlite_is_made_from_nothing_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    await (await Database.open(f"sqlite+aiosqlite:///{path}")).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [name for name in os.listdir(tmp_path) if "before-upgrade" in name]


@pytest.mark.anyio
async def test_upgrading_twice_changes_nothing(url: str) -> None:
    db = await Database.open(url)
    async with db.unit() as session:
        await Tenants(session).ensure("kept", "Kept")
    await db.close()
    assert upgrade(url) == upgrade(url) == head()
    db = await Database.open(url)
    async with db.view() as session:
        assert [tenant.id for tenant in await Tenants(session).list()] == ["kept"]
    await db.close()


@pytest.mark.anyio
async def test_postgres_without_a_schema_is_refused_until_it_is_upgraded(postgres: Server) -> None:
    name = f"empty_{uuid4().hex}"
    url = postgres.create(name)
    with pytest.raises(SchemaOutdated, match=r"no SpecGate schema; .* `specgate db upgrade`"):
        await Database.open(url)
    upgrade(url)
    await (await Database.open(url)).close()
    postgres.drop(name)


@pytest.mark.anyio
async def test_a_schema_newer_than_the_program_is_used_as_it_is(url: str) -> None:
    engine = create_engine(_sync(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    db = await Database.open(url)
    await db.ping()
    await db.close()
    assert upgrade(url) == "9999"


@pytest.fixture
def later_release(tmp_path: Path) -> Path:
    """The migrations of a release that has one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "later.py").write_text(LATER.format(head=head()))
    return folder


async def _keep_a_tenant(url: str) -> None:
    db = await Database.open(url)
    async with db.unit() as session:
        await Tenants(session).ensure("kept", "Kept")
    await db.close()


@pytest.mark.anyio
async def test_sqlite_is_copied_before_it_is_migrated(tmp_path: Path, sqlite_url: str, later_release: Path) -> None:
    await _keep_a_tenant(sqlite_url)
    assert upgrade(sqlite_url, later_release) == "later"
    copy = tmp_path / f"specgate.db.before-upgrade-from-{head()}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert _rows(copy, "SELECT id FROM tenants") == _rows(tmp_path / "specgate.db", "SELECT id FROM tenants")
    assert _rows(tmp_path / "specgate.db", "SELECT id, note FROM tenants") == [("kept", "none")]
    with pytest.raises(sqlite3.OperationalError, match="note"):
        _rows(copy, "SELECT note FROM tenants")


@pytest.mark.anyio
async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, sqlite_url: str, later_release: Path) -> None:
    await _keep_a_tenant(sqlite_url)
    script = later_release / "versions" / "later.py"
    script.write_text(script.read_text() + "    raise ZeroDivisionError\n")
    with pytest.raises(ZeroDivisionError):
        upgrade(sqlite_url, later_release)
    with pytest.raises(sqlite3.OperationalError, match="note"):
        _rows(tmp_path / "specgate.db", "SELECT note FROM tenants")
    await _keep_a_tenant(sqlite_url)


@pytest.mark.anyio
async def test_postgres_of_an_older_release_is_refused_by_name(postgres_url: str, later_release: Path) -> None:
    await _keep_a_tenant(postgres_url)
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        refuse_outdated(connection)
        with pytest.raises(SchemaOutdated, match=f"revision {head()}; .* needs later.*`specgate db upgrade`"):
            refuse_outdated(connection, later_release)
    assert upgrade(postgres_url, later_release) == "later"
    with engine.connect() as connection:
        refuse_outdated(connection, later_release)
        refuse_outdated(connection)
    engine.dispose()
    await _keep_a_tenant(postgres_url)


def test_starts_at_the_same_moment_migrate_once(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'new.db'}"
    code = "import sys; from storage.schema import upgrade; print(upgrade(sys.argv[1]))"
    starts = [
        subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, cwd=ROOT, text=True)
        for _ in range(2)
    ]
    assert [start.communicate(timeout=60)[0].strip() for start in starts] == [head()] * 2


def _rows(path: Path, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute(query))


def test_a_new_migration_follows_the_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    write_migration("Nothing yet", folder)
    [script] = folder.glob("versions/*_nothing_yet.py")
    assert f'down_revision = "{head()}"' in script.read_text().replace("'", '"')
    assert upgrade(f"sqlite+aiosqlite:///{tmp_path / 'new.db'}", folder) == head(folder) != head()

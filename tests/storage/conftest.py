"""Every store test runs on a SQLite file and on a real PostgreSQL; each test has a database of its own."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from storage import Database
from storage.schema import upgrade
from storage.tenants import Tenants
from tests.storage.limiting import Bench, in_database
from tests.storage.postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(scope="session")
def template(postgres: Server) -> Iterator[str]:
    """A migrated PostgreSQL database that tests copy."""
    name = f"template_{uuid4().hex}"
    upgrade(postgres.create(name))
    yield name
    postgres.drop(name)


@pytest.fixture
def postgres_url(postgres: Server, template: str) -> Iterator[str]:
    name = f"test_{uuid4().hex}"
    yield postgres.create(name, template)
    postgres.drop(name)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that tests copy."""
    path = tmp_path_factory.mktemp("migrated") / "specgate.db"
    upgrade(f"sqlite+aiosqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated: Path) -> str:
    path = tmp_path / "specgate.db"
    shutil.copy(migrated, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    """An empty database with the tenant `default`."""
    database = await Database.open(url)
    async with database.unit() as session:
        await Tenants(session).ensure("default", "Default")
    yield database
    await database.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A limiter on each store."""
    database = await Database.open(str(request.getfixturevalue(f"{request.param}_url")))
    bench = Bench(database)
    async with in_database(bench) as bench.limiter:
        yield bench
    await database.close()

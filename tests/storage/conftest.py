"""Every store test runs on a SQLite file and on a real PostgreSQL; each test has a database of its own."""

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from storage import Database
from storage.schema import upgrade
from storage.tenants import Tenants
from tests.storage.limiting import Bench, in_database, in_redis
from tests.storage.valkey import empty, redis_url


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


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_url(tmp_path_factory.mktemp("valkey")) as url:
        yield url


@pytest.fixture(params=["sqlite", "lane", "postgres", "redis"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A limiter on each store, SQLite by both ways; Redis is empty, and has SQLite beside it for the budgets."""
    kind = "postgres" if request.param == "postgres" else "sqlite"
    url = str(request.getfixturevalue(f"{kind}_url"))
    database = await Database.open(url)
    bench = Bench(database)
    async with AsyncExitStack() as stack:
        if request.param == "redis":
            valkey_url = str(request.getfixturevalue("valkey_url"))
            await empty(valkey_url)
            bench.limiter = await stack.enter_async_context(in_redis(bench, valkey_url))
        else:
            lane = url if request.param == "lane" else ""
            bench.limiter = await stack.enter_async_context(in_database(bench, lane))
        yield bench
    await database.close()

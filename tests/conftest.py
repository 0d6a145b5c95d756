"""Fixtures for every test, among them one PostgreSQL server a session, wherever it is asked for."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from storage.schema import upgrade
from tests.storage.postgres import Server, server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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

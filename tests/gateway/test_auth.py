"""A key becomes a principal; whatever is wrong with it, the answer is the same 401; an absent database is 503."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from gateway.auth import Authenticator, Principal
from gateway.errors import ApiError, InvalidApiKey, StorageUnavailable, TenantSuspended
from gateway.last_used import LastUsed
from storage import Database
from storage.api_keys import ApiKeys
from storage.projects import Projects
from storage.tenants import Tenants
from storage.values import NewKey

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that tests move."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    async with database.unit() as session:
        await Tenants(session).ensure("acme", "Acme", "billed")
    yield database
    await database.close()


@pytest.fixture
async def key(db: Database) -> NewKey:
    async with db.unit() as session:
        return await ApiKeys(session).create("acme", "inference", "one")


async def _revoke(db: Database, key: NewKey) -> None:
    async with db.unit() as session:
        await ApiKeys(session).revoke(key.public_id)


@pytest.mark.parametrize("name", ["authorization", "Authorization", "x-api-key", "X-API-Key"])
async def test_a_key_is_read_from_either_header(db: Database, key: NewKey, name: str) -> None:
    value = f"Bearer {key.key}" if name.lower() == "authorization" else key.key
    principal = await Authenticator(db).authenticate(Headers({name: value}))
    assert principal == Principal("acme", key.public_id, "inference", "billed", "proj_acme")


async def test_every_cause_has_the_same_answer(db: Database, key: NewKey) -> None:
    async with db.unit() as session:
        revoked = await ApiKeys(session).create("acme", "inference", "gone")
    await _revoke(db, revoked)
    headers = [
        {},
        {"authorization": ""},
        {"authorization": key.key},
        {"authorization": f"Basic {key.key}"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {key.key[:-1]}"},
        {"authorization": f"Bearer {revoked.key}"},
        {"authorization": "Bearer sk-sg-' OR '1'='1"},
        {"authorization": "Bearer \x00\ud800"},
        {"x-api-key": "é" * 9000},
    ]
    answers = set()
    for one in headers:
        with pytest.raises(InvalidApiKey) as refused:
            await Authenticator(db).authenticate(one)
        answers.add((refused.value.status, repr(refused.value.body()), repr(refused.value.headers)))
    assert len(answers) == 1
    assert key.secret not in repr(answers)


async def test_a_revoked_key_is_refused_after_a_second(db: Database, key: NewKey) -> None:
    clock = Clock()
    authenticator = Authenticator(db, clock, patience=10)
    headers = {"authorization": f"Bearer {key.key}"}
    principal = await authenticator.authenticate(headers)
    await _revoke(db, key)
    clock.now += 0.99
    await authenticator.authenticate(headers)
    assert await authenticator.is_revoked(principal)
    clock.now += 0.01
    with pytest.raises(InvalidApiKey):
        await authenticator.authenticate(headers)


async def test_a_new_policy_is_seen_after_a_second(db: Database, key: NewKey) -> None:
    clock = Clock()
    authenticator = Authenticator(db, clock)
    headers = {"x-api-key": key.key}
    await authenticator.authenticate(headers)
    async with db.unit() as session:
        tenant = await Tenants(session).get("acme")
        assert tenant is not None
        await Tenants(session).update(tenant, "Acme", "free")
    clock.now += 1
    assert (await authenticator.authenticate(headers)).rejected_prediction == "free"


async def test_a_suspended_tenant_is_told_so_and_its_streams_end(db: Database, key: NewKey) -> None:
    clock = Clock()
    authenticator = Authenticator(db, clock)
    async with db.unit() as session:
        operator = await ApiKeys(session).create("acme", "operator", "boss")
    principal = await authenticator.authenticate({"x-api-key": key.key})
    async with db.unit() as session:
        tenant = await Tenants(session).get("acme")
        assert tenant is not None
        await Tenants(session).suspend(tenant)
    assert await authenticator.is_revoked(principal)
    clock.now += 1
    with pytest.raises(TenantSuspended):
        await authenticator.authenticate({"x-api-key": key.key})
    assert (await authenticator.authenticate({"x-api-key": operator.key})).kind == "operator"


async def test_the_keys_of_an_archived_project_have_ended(db: Database) -> None:
    async with db.unit() as session:
        projects = Projects(session, "acme")
        project = await projects.create("Gone")
        theirs = await ApiKeys(session).create("acme", "inference", "one", project_id=project.id)
    principal = await Authenticator(db).authenticate({"x-api-key": theirs.key})
    assert principal.project_id == project.id
    async with db.unit() as session:
        await Projects(session, "acme").archive(project)
    assert await Authenticator(db).is_revoked(principal)
    with pytest.raises(InvalidApiKey):
        await Authenticator(db).authenticate({"x-api-key": theirs.key})


async def test_a_key_is_remembered_no_longer_than_it_lives(db: Database) -> None:
    """Rotation: the old key ends with its overlap, not a second later."""
    async with db.unit() as session:
        ends_at = datetime.now(UTC) + timedelta(seconds=0.5)
        short = await ApiKeys(session).create("acme", "inference", "short", expires_at=ends_at)
    authenticator = Authenticator(db)
    await authenticator.authenticate({"x-api-key": short.key})
    await asyncio.sleep(0.55)
    with pytest.raises(InvalidApiKey):
        await authenticator.authenticate({"x-api-key": short.key})


async def test_use_is_noted_behind_the_request(db: Database, key: NewKey) -> None:
    last_used = LastUsed(db, gather=0.05)
    authenticator = Authenticator(db, last_used=last_used)
    for _ in range(3):
        await authenticator.authenticate({"x-api-key": key.key})
    assert await _last_use(db) is None
    for _ in range(100):
        if await _last_use(db) is not None:
            break
        await asyncio.sleep(0.02)
    assert await _last_use(db) is not None
    await last_used.close()


async def _last_use(db: Database) -> datetime | None:
    async with db.view() as session:
        [found] = await ApiKeys(session).list()
    return found.last_used_at


async def test_a_silent_database_is_503_within_two_seconds(key: NewKey) -> None:
    """A port that takes the connection and never answers: no key is wrong for that."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = _database_at(silent.getsockname()[1])
        begun = asyncio.get_running_loop().time()
        with pytest.raises(ApiError) as refused:
            await Authenticator(away).authenticate({"x-api-key": key.key})
        assert asyncio.get_running_loop().time() - begun < 2
        assert not await Authenticator(away).is_revoked(Principal("acme", key.public_id, "inference"))
        await away.close()
    assert isinstance(refused.value, StorageUnavailable)
    assert (refused.value.status, refused.value.headers["retry-after"]) == (503, "1")


async def test_a_refusing_database_is_503(key: NewKey) -> None:
    away = _database_at(1)
    with pytest.raises(StorageUnavailable):
        await Authenticator(away).authenticate({"x-api-key": key.key})
    await away.close()


def _database_at(port: int) -> Database:
    return Database.of_postgres(f"postgresql+psycopg://nobody@127.0.0.1:{port}/none")

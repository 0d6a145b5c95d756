"""Keys have one form, are kept as hashes, and stop working when revoked or expired."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from storage import Database
from storage.api_keys import ApiKeys, needs_touch
from storage.errors import KeyRefused
from storage.keyring import Keyring
from storage.models import api_keys
from storage.values import ApiKey, KeyKind, NewKey

pytestmark = pytest.mark.anyio
SECRET = "abcdefghij0123456789ABCDEFGHIJ_-klmnopqrstu"
PRESET = f"sk-sg-preset000001-{SECRET}"


async def _create(db: Database, kind: KeyKind = "inference", preset: str | None = None) -> NewKey:
    async with db.unit() as session:
        return await ApiKeys(session).create("default", kind, "a key", preset)


async def _find(db: Database, key: str) -> ApiKey | None:
    async with db.view() as session:
        holder = await Keyring(session).find(key)
        return holder.key if holder else None


async def test_a_new_key_has_the_form_and_is_found(db: Database) -> None:
    new = await _create(db, "operator")
    assert re.fullmatch(r"sk-sg-[a-z0-9]{12}-[A-Za-z0-9_-]{43}", new.key)
    found = await _find(db, new.key)
    assert found is not None
    assert (found.public_id, found.tenant_id, found.kind, found.name) == (new.public_id, "default", "operator", "a key")


async def test_the_secret_is_nowhere(db: Database) -> None:
    new = await _create(db)
    async with db.view() as session:
        row = (await session.execute(select(api_keys))).one()
        stored = repr(row._mapping) + repr(await ApiKeys(session).list())
    assert new.secret not in stored + repr(new)
    assert re.fullmatch(r"[0-9a-f]{64}", row.secret_sha256)


@pytest.mark.parametrize("change", ["secret", "public id", "case", "space", "prefix", "empty", "longer"])
async def test_nothing_but_the_very_key_is_found(db: Database, change: str) -> None:
    key = (await _create(db, preset=PRESET)).key
    wrong = {
        "secret": key[:-1] + "X",
        "public id": key.replace("preset000001", "preset000002"),
        "case": key.upper(),
        "space": key + "\n",
        "prefix": key[1:],
        "empty": "",
        "longer": key + "a",
    }[change]
    assert await _find(db, wrong) is None
    assert await _find(db, key) is not None


@pytest.mark.parametrize(
    ("preset", "reason"),
    [
        ("secret", "not of the form"),
        (f"sk-sg-short-{SECRET}", "not of the form"),
        (f"sk-sg-PRESET000001-{SECRET}", "not of the form"),
        (f"sk-sg-preset000001-{SECRET[:42]}", "43 to 128"),
        (f"sk-sg-preset000001-{SECRET[:-1]}!", "not of the form"),
        (f"sk-sg-preset000001-{SECRET}\n", "not of the form"),
        (f"sk-sg-preset000001-{'a' * 43}", "fewer than 10 different"),
    ],
)
async def test_a_preset_of_the_wrong_form_is_refused_with_the_reason(db: Database, preset: str, reason: str) -> None:
    with pytest.raises(KeyRefused, match=reason) as refused:
        await _create(db, preset=preset)
    assert preset not in str(refused.value)
    async with db.view() as session:
        assert await ApiKeys(session).list() == []


async def test_a_public_id_belongs_to_one_key(db: Database) -> None:
    await _create(db, preset=PRESET)
    with pytest.raises(KeyRefused, match="preset000001 already belongs"):
        await _create(db, preset=f"sk-sg-preset000001-{SECRET[::-1]}")


async def test_ensure_makes_a_key_once_and_refuses_another_under_its_id(db: Database) -> None:
    async with db.unit() as session:
        keys = ApiKeys(session)
        assert await keys.ensure("default", "inference", "one", PRESET)
        assert not await keys.ensure("default", "inference", "one", PRESET)
        with pytest.raises(KeyRefused, match="already belongs"):
            await keys.ensure("default", "inference", "one", f"sk-sg-preset000001-{SECRET[::-1]}")
        with pytest.raises(KeyRefused, match="already belongs"):
            await keys.ensure("default", "operator", "one", PRESET)


async def test_a_revoked_key_is_gone_for_ever(db: Database) -> None:
    new = await _create(db, preset=PRESET)
    async with db.unit() as session:
        keys = ApiKeys(session)
        assert await keys.revoke(new.public_id)
        assert not await keys.revoke(new.public_id)
        assert not await keys.revoke("unknown00000")
        assert not await keys.ensure("default", "inference", "again", PRESET)
    assert await _find(db, new.key) is None


async def test_a_key_ends_when_it_expires(db: Database) -> None:
    now = datetime.now(UTC)
    async with db.unit() as session:
        keys = ApiKeys(session)
        old = await keys.create("default", "inference", "old", expires_at=now - timedelta(seconds=1))
        young = await keys.create("default", "inference", "young", expires_at=now + timedelta(hours=1))
    assert await _find(db, old.key) is None
    assert await _find(db, young.key) is not None


async def test_use_is_noted_to_the_minute(db: Database) -> None:
    new = await _create(db)
    found = await _find(db, new.key)
    assert found is not None
    assert needs_touch(found, datetime.now(UTC))
    async with db.unit() as session:
        await ApiKeys(session).touch([found.public_id])
    used = await _find(db, new.key)
    assert used is not None
    assert used.last_used_at is not None
    assert not needs_touch(used, used.last_used_at + timedelta(seconds=59))
    assert needs_touch(used, used.last_used_at + timedelta(seconds=60))


async def test_injection_is_only_text(db: Database) -> None:
    await _create(db)
    for text in (
        "' OR 1=1 --",
        "sk-sg-' OR '1'='1-" + SECRET,
        "sk-sg-abcdefghijkl-" + SECRET + "'; DROP TABLE api_keys",
    ):
        assert await _find(db, text) is None
    async with db.view() as session:
        assert len(await ApiKeys(session).list("default")) == 1
        assert await ApiKeys(session).list("another") == []

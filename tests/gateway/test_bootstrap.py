"""The first start makes a home for one process and its owner alone; later starts change nothing."""

import asyncio
import json
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.bootstrap import bootstrap, new_epoch, read_credentials, reset_admin, settle_dead
from gateway.home import HomeRefused, take_home
from gateway.secret import audit_key, hkdf, subkey
from storage import Database
from storage.api_keys import ApiKeys
from storage.audit import Audit
from storage.keyring import Keyring
from storage.ledger import Ledger
from storage.paging import Cursor
from storage.values.audit import AuditQuery
from tests.storage.entries import open_requests, problems

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
SECRET = "abcdefghij0123456789ABCDEFGHIJ_-klmnopqrstu"
INFERENCE = f"sk-sg-preset000001-{SECRET}"
OPERATOR = f"sk-sg-preset000002-{SECRET}"
BOTH = frozenset({"inference_key", "operator_key"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    yield database
    await database.close()


async def _kinds(db: Database, *keys: str) -> list[str | None]:
    async with db.view() as session:
        holders = [await Keyring(session).find(key) for key in keys]
    return [holder.key.kind if holder else None for holder in holders]


def _mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


async def test_the_first_start_makes_keys_and_secret_for_the_owner_alone(home: Path, db: Database) -> None:
    made = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    assert made.new == BOTH
    assert await _kinds(db, made.inference_key, made.operator_key) == ["inference", "operator"]
    assert re.fullmatch(rb"[0-9a-f]{64}", made.secret)
    assert (_mode(home), _mode(home / "credentials.json"), _mode(home / "secret")) == (0o700, 0o600, 0o600)
    kept = json.loads((home / "credentials.json").read_text())
    assert (kept["tenant_id"], kept["inference_key"], kept["operator_key"]) == (
        "default",
        made.inference_key,
        made.operator_key,
    )
    for secret in (made.inference_key, made.operator_key, made.secret.decode()):
        assert secret not in repr(made)


async def test_a_second_start_changes_nothing(home: Path, db: Database) -> None:
    first = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    files = {path.name: path.read_bytes() for path in (home / "credentials.json", home / "secret")}
    second = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    assert second.new == frozenset()
    assert (second.inference_key, second.operator_key, second.secret) == (
        first.inference_key,
        first.operator_key,
        first.secret,
    )
    assert files == {path.name: path.read_bytes() for path in (home / "credentials.json", home / "secret")}
    async with db.view() as session:
        assert len(await ApiKeys(session).list()) == 2


async def test_wide_permissions_are_closed_again(home: Path, db: Database) -> None:
    await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    os.chmod(home, 0o755)
    os.chmod(home / "credentials.json", 0o644)
    os.chmod(home / "secret", 0o644)
    await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    assert (_mode(home), _mode(home / "credentials.json"), _mode(home / "secret")) == (0o700, 0o600, 0o600)


def test_a_folder_with_another_use_is_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(HomeRefused, match="SPECGATE_HOME"):
        take_home(shared)
    assert _mode(shared) == 0o1777


async def test_preset_keys_are_the_keys(home: Path, db: Database) -> None:
    made = await bootstrap(home, db, bootstrap_key=INFERENCE, admin_key=OPERATOR)
    assert (made.inference_key, made.operator_key) == (INFERENCE, OPERATOR)
    assert made.new == frozenset(), "who preset them knows them; a log must not"
    assert await _kinds(db, INFERENCE, OPERATOR) == ["inference", "operator"]
    again = await bootstrap(home, db, bootstrap_key=INFERENCE, admin_key=OPERATOR)
    assert again.new == frozenset()
    later = await bootstrap(home, db, bootstrap_key=INFERENCE.replace("preset", "second"), admin_key=None)
    assert (later.operator_key, later.new) == (OPERATOR, frozenset())


@pytest.mark.parametrize(
    ("bootstrap_key", "admin_key", "reason"),
    [
        ("secret", None, "SPECGATE_BOOTSTRAP_KEY: .*not of the form sk-sg-"),
        (None, "sk-proj-123", "SPECGATE_ADMIN_KEY: .*not of the form sk-sg-"),
        ("", None, "SPECGATE_BOOTSTRAP_KEY"),
        (INFERENCE, INFERENCE, "same public id"),
    ],
)
async def test_a_wrong_preset_refuses_the_start_with_the_reason(
    home: Path, db: Database, bootstrap_key: str | None, admin_key: str | None, reason: str
) -> None:
    with pytest.raises(HomeRefused, match=reason) as refused:
        await bootstrap(home, db, bootstrap_key=bootstrap_key, admin_key=admin_key)
    assert SECRET not in str(refused.value)
    assert read_credentials(home) is None
    async with db.view() as session:
        assert await ApiKeys(session).list() == []


async def test_a_preset_that_belongs_to_another_key_leaves_the_old_ones(home: Path, db: Database) -> None:
    first = await bootstrap(home, db, bootstrap_key=INFERENCE, admin_key=OPERATOR)
    with pytest.raises(HomeRefused, match="already belongs"):
        await bootstrap(home, db, bootstrap_key=OPERATOR[:-1] + "X", admin_key=INFERENCE)
    assert await bootstrap(home, db, bootstrap_key=None, admin_key=None) == replace(first, new=frozenset())


async def test_a_start_killed_before_its_commit_is_completed(home: Path, db: Database, tmp_path: Path) -> None:
    """The files of a first start, and a database that never heard of it."""
    made = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    empty = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    again = await bootstrap(home, empty, bootstrap_key=None, admin_key=None)
    assert (again.inference_key, again.new) == (made.inference_key, BOTH)
    assert await _kinds(empty, made.inference_key, made.operator_key) == ["inference", "operator"]
    await empty.close()


async def test_a_revoked_key_stays_revoked(home: Path, db: Database) -> None:
    await bootstrap(home, db, bootstrap_key=INFERENCE, admin_key=None)
    async with db.unit() as session:
        await ApiKeys(session).revoke("preset000001")
    assert (await bootstrap(home, db, bootstrap_key=INFERENCE, admin_key=None)).new == frozenset()
    assert await _kinds(db, INFERENCE) == [None]


async def test_damaged_credentials_are_named(home: Path, db: Database) -> None:
    await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    for damaged in (
        "",
        "{",
        "[]",
        '{"home_id": "x"}',
        '{"home_id":"a","tenant_id":"b","inference_key":"c","operator_key":"d"}',
    ):
        (home / "credentials.json").write_text(damaged)
        with pytest.raises(HomeRefused, match=r"credentials\.json is damaged"):
            await bootstrap(home, db, bootstrap_key=None, admin_key=None)


async def test_the_admin_key_is_replaced(home: Path, db: Database) -> None:
    old = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    new = await reset_admin(home, db)
    assert await _kinds(db, old.operator_key, new, old.inference_key) == [None, "operator", "inference"]
    found = read_credentials(home)
    assert found is not None
    assert (found.operator_key, found.inference_key) == (new, old.inference_key)
    assert (await bootstrap(home, db, bootstrap_key=None, admin_key=None)).new == frozenset()


async def test_there_is_nothing_to_reset_before_the_first_start(home: Path, db: Database) -> None:
    with pytest.raises(HomeRefused, match="Start the gateway once"):
        await reset_admin(home, db)


async def test_another_secret_on_the_same_database_is_refused(home: Path, db: Database, tmp_path: Path) -> None:
    secret = "0123456789abcdef" * 2
    first = await bootstrap(home, db, bootstrap_key=None, admin_key=None, secret=secret)
    assert first.secret == secret.encode()
    assert "secret" not in os.listdir(home)
    with pytest.raises(HomeRefused, match="SPECGATE_SECRET"):
        await bootstrap(tmp_path / "second", db, bootstrap_key=None, admin_key=None)
    await bootstrap(tmp_path / "second", db, bootstrap_key=None, admin_key=None, secret=secret)
    with pytest.raises(HomeRefused, match="at least 32"):
        await bootstrap(home, db, bootstrap_key=None, admin_key=None, secret="short")


def test_sub_keys_follow_rfc_5869() -> None:
    found = hkdf(bytes([0x0B] * 22), bytes(range(13)), bytes(range(0xF0, 0xFA)), 42)
    assert found.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    assert len({subkey(b"secret", purpose) for purpose in (b"cache-salt", b"session", b"audit")}) == 3
    assert subkey(b"secret", b"audit") != subkey(b"other", b"audit")


async def test_what_an_earlier_run_left_open_is_settled(home: Path, db: Database) -> None:
    credentials = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    dead, alive = new_epoch(credentials), new_epoch(credentials)
    await open_requests(db, "r1", "r2", owner=dead)
    await open_requests(db, "mine", owner=alive)
    await open_requests(db, "elsewhere", owner="another-home:1")
    assert await settle_dead(db, alive) == 2
    assert await settle_dead(db, alive) == 0
    async with db.view() as session:
        assert [entry.request_id for entry in await Ledger(session).unsettled()] == ["mine", "elsewhere"]
    assert await problems(db) == []


HOLDER = """
import sys, time
from pathlib import Path
from gateway.home import take_home
lock = take_home(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


async def test_a_second_start_names_the_process_that_holds_the_home(home: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(home), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        with pytest.raises(HomeRefused, match=f"in use by process {holder.pid}\\b.*SPECGATE_HOME"):
            take_home(home)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        await holder.communicate()
    with take_home(home):
        assert (home / "lock").read_text() == f"{os.getpid()}\n"
        with pytest.raises(HomeRefused, match=f"process {os.getpid()}"):
            take_home(home)
    take_home(home).release()


async def test_the_first_keys_and_their_replacement_are_audited(home: Path, db: Database) -> None:
    credentials = await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    await bootstrap(home, db, bootstrap_key=None, admin_key=None)
    await reset_admin(home, db)
    async with db.view() as session:
        audit = Audit(session, audit_key(credentials.secret))
        events, _ = await audit.page(AuditQuery(), Cursor())
        assert (await audit.verify()).problems == ()
    assert [(event.actor.id, event.action) for event in events[::-1]] == [
        ("first-start", "api_key.created"),
        ("first-start", "api_key.created"),
        ("reset-admin", "api_key.deleted"),
        ("reset-admin", "api_key.created"),
    ]

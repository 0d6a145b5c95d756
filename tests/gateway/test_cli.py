"""The commands that need no running server, as a shell would call them."""

import asyncio
import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.bootstrap import bootstrap, read_credentials
from gateway.cli import app
from storage import Database
from storage.keyring import Keyring

KEY = "sk-sg-abcdefghij12-" + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no setting from the environment of whoever runs the tests."""
    for name in ("HOST", "PORT", "DATABASE_URL", "SPECGATE_CONFIG", "SPECGATE_MODEL", "SPECGATE_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPECGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "home"


@pytest.fixture
def started(home: Path) -> Path:
    """A home after its first start."""

    home.mkdir(mode=0o700)

    async def start() -> None:
        db = await Database.open(f"sqlite+aiosqlite:///{home / 'specgate.db'}")
        await bootstrap(home, db, bootstrap_key=None, admin_key=None)
        await db.close()

    asyncio.run(start())
    return home


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def settings_shown(*arguments: str) -> dict[str, dict[str, str]]:
    done = call("config", "show", "--json")
    assert done.exit_code == 0, done.output
    return {row["setting"]: row for row in json.loads(done.stdout)}


def test_config_show_names_the_origin_of_every_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "specgate.toml").write_text('model = "from the file"\nport = 81\n')
    monkeypatch.setenv("PORT", "82")
    rows = settings_shown()
    assert rows["port"] == {"setting": "port", "value": "82", "from": "environment", "variable": "PORT"}
    assert (rows["model"]["value"], rows["model"]["from"]) == ("from the file", str(home / "specgate.toml"))
    assert (rows["host"]["value"], rows["host"]["from"]) == ("127.0.0.1", "default")
    assert rows["model"]["variable"] == "SPECGATE_MODEL"


def test_config_show_masks_secrets_and_the_password_of_the_database(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECGATE_ADMIN_KEY", KEY)
    monkeypatch.setenv("SPECGATE_SECRET", "another secret that nobody may see")
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://me:hunter2@db/specgate")
    shown = call("config", "show").output
    assert "********" in shown
    assert not [secret for secret in (KEY, "nobody may see", "hunter2") if secret in shown]
    assert "postgresql+psycopg://me:***@db/specgate" in shown


def test_a_setting_that_cannot_be_used_is_named_without_its_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "seventy")
    done = call("config", "show")
    assert done.exit_code == 2
    assert "port:" in done.stderr.lower()
    assert "seventy" not in done.stderr


def test_an_unknown_key_of_the_file_is_an_error(home: Path) -> None:
    home.mkdir()
    (home / "specgate.toml").write_text("prot = 81\n")
    done = call("config", "show")
    assert done.exit_code == 2
    assert "prot" in done.stderr


def test_reset_admin_makes_a_new_key_and_revokes_the_old_one(started: Path) -> None:
    before = read_credentials(started)
    assert before is not None
    done = call("keys", "reset-admin")
    assert done.exit_code == 0, done.output
    after = read_credentials(started)
    assert after is not None
    assert after.operator_key in done.stdout
    assert after.operator_key != before.operator_key
    assert after.inference_key == before.inference_key
    assert stat.S_IMODE((started / "credentials.json").stat().st_mode) == 0o600
    assert asyncio.run(active(started, before.operator_key, after.operator_key)) == [False, True]


async def active(home: Path, *keys: str) -> list[bool]:
    db = await Database.open(f"sqlite+aiosqlite:///{home / 'specgate.db'}")
    async with db.view() as session:
        holders = [await Keyring(session).find(key) for key in keys]
    await db.close()
    return [holder is not None for holder in holders]


def test_reset_admin_without_a_home_says_to_start_first(home: Path) -> None:
    home.mkdir(mode=0o700)
    done = call("keys", "reset-admin")
    assert done.exit_code == 1
    assert "Start the gateway once" in done.stderr


def test_db_upgrade_names_the_revision(home: Path) -> None:
    done = call("db", "upgrade")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("The database is at revision ")
    assert (home / "specgate.db").is_file()


def test_ledger_verify_says_that_the_ledger_holds(started: Path) -> None:
    done = call("ledger", "verify")
    assert (done.exit_code, done.stdout) == (0, "The ledger holds: every entry keeps every rule.\n")


def test_ledger_verify_finds_no_fault_in_nothing_by_saying_so(home: Path) -> None:
    done = call("ledger", "verify")
    assert done.exit_code == 1
    assert "there is no database" in done.stderr
    assert not (home / "specgate.db").exists()


@pytest.mark.parametrize("command", ["demo", "usage"])
def test_commands_that_need_a_server_say_to_start_one(command: str, started: Path) -> None:
    done = call(command, "--base-url", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "no server answers at http://127.0.0.1:9. Start one with `specgate serve`" in done.stderr


def test_commands_that_need_keys_say_where_they_are_made(home: Path) -> None:
    done = call("usage")
    assert done.exit_code == 1
    assert f"there is no credentials.json in {home}" in done.stderr

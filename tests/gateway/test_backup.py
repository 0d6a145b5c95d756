"""A home is saved while it is in use and put back somewhere else: same keys, same ledger, same secret."""

import stat
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from gateway.bootstrap import read_credentials, take_home
from gateway.cli import app
from tests.gateway.test_apply import server

__all__ = ["server"]
HELLO = {"model": "smollm2-135m", "messages": [{"role": "user", "content": "x"}]}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_running_servers_home_is_saved_and_put_back(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, archive = tmp_path / "home", tmp_path / "saved.tar.gz"
    credentials = read_credentials(home)
    assert credentials is not None
    headers = {"authorization": f"Bearer {credentials.inference_key}"}
    assert httpx.post(f"{server}/v1/chat/completions", json=HELLO, headers=headers).status_code == 200
    done = call("backup", str(archive))
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with take_home(home):  # as `specgate serve` does
        assert "in use by process" in call("restore", str(archive), "--force").stderr

    monkeypatch.setenv("SPECGATE_HOME", str(tmp_path / "another"))
    done = call("restore", str(archive))
    assert done.exit_code == 0, done.output
    assert read_credentials(tmp_path / "another") == credentials
    assert (tmp_path / "another" / "secret").read_text() == (home / "secret").read_text()
    assert stat.S_IMODE((tmp_path / "another" / "secret").stat().st_mode) == 0o600
    assert call("ledger", "verify").stdout == "The ledger holds: every entry keeps every rule.\n"
    assert "is there already" in call("restore", str(archive)).stderr
    assert call("restore", str(archive), "--force").exit_code == 0


def test_an_archive_is_never_written_over_and_another_file_is_no_backup(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    assert "Choose a file that is not there yet" in call("backup", str(taken)).stderr
    monkeypatch.setenv("SPECGATE_HOME", str(tmp_path / "another"))
    assert "was not restored" in call("restore", str(taken)).stderr
    assert taken.read_text() == "mine"


@pytest.mark.parametrize("damage", ["cut", "turned"])
def test_a_damaged_backup_replaces_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    archive = tmp_path / "saved"
    assert call("backup", str(archive)).exit_code == 0
    whole = archive.read_bytes()
    half = len(whole) // 2
    turned = whole[:half] + bytes(255 - byte for byte in whole[half : half + 8]) + whole[half + 8 :]
    archive.write_bytes(whole[:half] if damage == "cut" else turned)
    home = tmp_path / "another"
    home.mkdir()
    (home / "specgate.db").write_text("mine")
    monkeypatch.setenv("SPECGATE_HOME", str(home))
    refused = call("restore", str(archive), "--force")
    assert (refused.exit_code, "was not restored" in refused.stderr) == (1, True)
    assert (home / "specgate.db").read_text() == "mine"
    assert {path.name for path in home.iterdir()} <= {"specgate.db", "lock"}


def test_postgresql_has_tools_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECGATE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:9/none")
    assert "pg_dump" in call("backup", str(tmp_path / "x")).stderr

"""Starts that are refused: with the reason, without a traceback, before a model is fetched or a database is made."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import app
from gateway.home import append_private
from tests.integration.served import environment

GOOD = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


class Fetched(Exception):
    """The start went on to what is only for good settings."""


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fetch(*_: object) -> None:
        raise Fetched

    monkeypatch.setattr(sys.modules["gateway.cli.serve"], "model_folder", fetch)  # the package has a function `serve`
    for name in set(os.environ) - environment(tmp_path).keys():
        monkeypatch.delenv(name)


def start(home: Path, **more: str) -> Result:
    done = CliRunner().invoke(app, ["serve"], env={"SPECGATE_HOME": str(home), "PORT": "0"} | more)
    assert not isinstance(done.exception, Exception), done.exception
    return done


def test_a_good_start_fetches(tmp_path: Path) -> None:
    key = "sk-sg-" + "a" * 12 + "-" + GOOD
    done = CliRunner().invoke(app, ["serve"], env={"SPECGATE_HOME": str(tmp_path / "home"), "SPECGATE_ADMIN_KEY": key})
    assert isinstance(done.exception, Fetched)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("SPECGATE_BOOTSTRAP_KEY", "sk-sg-short", "43 to 128"),
        ("SPECGATE_BOOTSTRAP_KEY", "sk-sg-" + "a" * 12 + "-" + "b" * 43, "fewer than 10 different"),
        ("SPECGATE_ADMIN_KEY", "sk-sg-" + "a" * 12 + "-" + GOOD * 3, "43 to 128"),
        ("SPECGATE_SECRET", "short", "at least 32"),
        ("SPECGATE_DEVICE", "tpu", "'tpu' is no device"),
        ("SPECGATE_DTYPE", "int4", "dtype"),
        ("SPECGATE_ADMIN_BIND", "nowhere", "write host:port"),
        ("DATABASE_URL", "not a url", "write postgresql+psycopg://… or sqlite+aiosqlite://…"),
        ("DATABASE_URL", "mysql://u:hidden-word@h/d", "write postgresql+psycopg://… or sqlite+aiosqlite://…"),
        ("DATABASE_URL", "postgresql://u:hidden-word@h/d", "write postgresql+psycopg://… or sqlite+aiosqlite://…"),
        ("DATABASE_URL", "postgresql+psycopg://u:hidden-word@h:port/d", "write postgresql+psycopg://…"),
        ("SPECGATE_REDIS_URL", "hidden-word:6379", "write redis://…, rediss://… or unix://…"),
        ("SPECGATE_ENGINE_URL", "engine:8001", "write http://… or https://…"),
        ("SPECGATE_ENGINE_URL", "http://127.0.0.1:1", "needs SPECGATE_WORKER_SECRET"),
    ],
)
def test_a_bad_setting_leaves_nothing(tmp_path: Path, name: str, value: str, why: str) -> None:
    done = start(tmp_path / "home", **{name: value})
    assert done.exit_code in (1, 2)
    assert why in done.stderr
    assert "pydantic" not in done.stderr
    assert "Value error" not in done.stderr
    assert "hidden-word" not in done.stderr
    assert not done.stdout
    left = {path.name for path in (tmp_path / "home").iterdir()} if (tmp_path / "home").exists() else set()
    assert left <= {"lock"}, "no model, no keys, no database"


def test_workers_on_sqlite_are_refused_before_a_model_is_fetched(tmp_path: Path) -> None:
    env = {"SPECGATE_HOME": str(tmp_path / "home"), "PORT": "0"}
    done = CliRunner().invoke(app, ["serve", "--workers", "2"], env=env)
    assert done.exit_code == 2
    assert "--workers needs PostgreSQL" in done.stderr
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"lock"}


def test_two_preset_keys_with_one_public_id_are_refused_first(tmp_path: Path) -> None:
    key = "sk-sg-" + "a" * 12 + "-" + GOOD
    done = start(tmp_path / "home", SPECGATE_BOOTSTRAP_KEY=key, SPECGATE_ADMIN_KEY=key)
    assert "same public id" in done.stderr
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"lock"}


@pytest.mark.parametrize("below", ["", "below"])
def test_a_home_that_is_a_file_says_so(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    done = start(tmp_path / "file" / below)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"specgate: SPECGATE_HOME {tmp_path / 'file'}")
    assert "Set SPECGATE_HOME to " in done.stderr


@pytest.mark.parametrize("seconds", [0.2, 0.6])
def test_an_interrupt_while_it_begins_leaves_no_traceback(tmp_path: Path, seconds: float) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "gateway", "serve"]
    env = environment(tmp_path, SPECGATE_BOOTSTRAP_KEY="sk-sg-short")
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if " gateway" in line:  # Python itself has begun, and the first module of ours is there
            break
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
    # Python ends by the signal itself where it came inside an eval() of some import; a shell says 130 to both.
    assert process.returncode in (130, -signal.SIGINT, 1)


def test_logs_are_for_their_owner_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    old.write_text("before\n")
    old.chmod(0o644)
    umask = os.umask(0)
    try:
        for path in (old, new):
            with append_private(path) as log:
                log.write(b"now\n")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(umask)
    assert old.read_text() == "before\nnow\n"

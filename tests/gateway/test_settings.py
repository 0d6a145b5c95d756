"""Where settings come from, and what is refused."""

from pathlib import Path

import pytest
import typer
from pydantic import ValidationError

from gateway.cli.console import load_settings
from gateway.settings import Settings, is_loopback, split_bind, unknown_variables


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOST", "PORT", "DATABASE_URL", "SPECGATE_CONFIG", "SPECGATE_HOME", "SPECGATE_MODEL"):
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.model, settings.drain_seconds) == (
        "127.0.0.1",
        8000,
        "smollm2-135m",
        30,
    )
    assert (settings.max_body_bytes, settings.durability) == (8 * 2**20, "process")
    assert settings.database.endswith("/.specgate/specgate.db")


def test_flag_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".specgate").mkdir()
    (tmp_path / ".specgate" / "specgate.toml").write_text(
        'port = 1\nhost = "::1"\nmodel = "file"\nmax_body_bytes = 9\n'
    )
    monkeypatch.setenv("PORT", "2")
    monkeypatch.setenv("SPECGATE_MODEL", "environment")
    settings = Settings(port=3)
    assert (settings.port, settings.model, settings.host, settings.max_body_bytes) == (3, "environment", "::1", 9)


def test_an_unknown_key_in_the_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CONFIG", str(tmp_path / "other.toml"))
    (tmp_path / "other.toml").write_text('secret_sauce = "hunter2"\n')
    with pytest.raises(ValidationError, match="secret_sauce") as refused:
        Settings()
    assert "hunter2" not in str(refused.value)


def test_a_variable_that_sets_nothing_is_told_with_the_likely_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unknown_variables(["SPECGATE_MODLE", "SPECGATE_MODEL", "SPECGATE_CONFIG", "PATH", "SPECGATE_PORT"]) == [
        "SPECGATE_MODLE",
        "SPECGATE_PORT",
    ]
    monkeypatch.setenv("SPECGATE_MODLE", "x")
    with pytest.raises(typer.Exit) as ended:
        load_settings()
    assert ended.value.exit_code == 2
    assert "there is no setting SPECGATE_MODLE; did you mean SPECGATE_MODEL?" in capsys.readouterr().err


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_ADMIN_KEY", "sk-sg-hidden")
    assert "hidden" not in repr(Settings())


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    assert Settings(host=host).serves_admin is loopback
    assert not Settings(host=host, admin_bind="127.0.0.1:1").serves_admin


def test_binds() -> None:
    assert split_bind("127.0.0.1:81") == ("127.0.0.1", 81)
    assert split_bind("[::1]:81") == ("::1", 81)
    with pytest.raises(ValueError, match="host:port"):
        split_bind("8001")


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:15"])
def test_devices(device: str) -> None:
    assert Settings(device=device).device == device


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("device", "tpu", "'tpu' is no device: write auto, cpu, cuda or cuda:N"),
        ("device", "cuda:", "is no device"),
        ("device", "cuda:x", "is no device"),
        ("device", "CPU", "is no device"),
        ("dtype", "int8", "'float32', 'bfloat16' or 'float16'"),
        ("max_model_len", "1", "greater than or equal to 2"),
        ("admin_bind", "8001", "write host:port"),
    ],
)
def test_a_bad_value_is_refused(name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"SPECGATE_{name.upper()}", value)
    with pytest.raises(ValidationError, match=f"(?s){name}.*{why}"):
        Settings()

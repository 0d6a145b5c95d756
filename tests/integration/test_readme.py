"""The README is true: its snippets run, its tables are those of the code, its paths exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import Settings, variable
from tests.integration.served import Served

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
live = [pytest.mark.model, pytest.mark.timeout(180)]


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, without its heading."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def snippet(language: str, server: Served, title: str = "Ask it") -> str:
    code = re.search(rf"^```{language}\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)
    assert code is not None
    assert "http://127.0.0.1:8000" in code[1]
    return code[1].replace("http://127.0.0.1:8000", server.url)


def pasted(command: list[str], server: Served, folder: Path) -> str:
    """What it prints, beside a home named as by default."""
    (folder / ".specgate").symlink_to(server.home)
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def ready(server: Served) -> Served:
    server.wait_ready()
    return server


class TestSnippets:
    pytestmark = live

    def test_curl(self, ready: Served, tmp_path: Path) -> None:
        assert '"completion_tokens"' in pasted(["bash", "-c", snippet("bash", ready)], ready, tmp_path)

    def test_python(self, ready: Served, tmp_path: Path) -> None:
        shown = pasted([sys.executable, "-c", snippet("python", ready)], ready, tmp_path)
        assert re.search(r"\naccepted: \d+\n$", shown)
        assert 'return f"Hello, {name}!"' in shown

    def test_organization(self, ready: Served, tmp_path: Path) -> None:
        shown = pasted([sys.executable, "-c", snippet("python", ready, "Tenants, projects and keys")], ready, tmp_path)
        key, *events = shown.splitlines()
        assert re.fullmatch(r"sk-sg-[a-z0-9]{12}-[\w-]{43}", key)
        told = [event.split()[0] for event in events]
        assert told == [
            *("rate_limit.updated", "api_key.created", "api_key.rotated"),
            *("api_key.created", "service_account.created", "project.created"),
        ]

    def test_deployments(self, ready: Served, tmp_path: Path) -> None:
        shown = pasted([sys.executable, "-c", snippet("python", ready, "Deployments and drafters")], ready, tmp_path)
        assert "{'field': 'speculation.drafter.length', 'from': None, 'to': 8}" in shown
        assert "ready Drafts come from the client's prediction and lookup in the request's own text." in shown

    @pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
    def test_node(self, ready: Served, tmp_path: Path) -> None:
        (tmp_path / "ask.mjs").write_text(snippet("javascript", ready))
        assert "accepted_prediction_tokens" in pasted(["node", "ask.mjs"], ready, tmp_path)


HELLO: dict[str, Any] = {"model": "smollm2-135m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
CHAT = "/v1/chat/completions"
PROVOKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "invalid_json": ("POST", CHAT, {"content": b"{"}),
    "missing_required_parameter": ("POST", CHAT, {"json": {"model": "smollm2-135m"}}),
    "unknown_parameter": ("POST", CHAT, {"json": HELLO | {"bogus": 1}}),
    "invalid_type": ("POST", CHAT, {"json": HELLO | {"prediction": {"type": "content", "content": 5}}}),
    "invalid_value": ("POST", CHAT, {"json": HELLO | {"n": 0}}),
    "empty_array": ("POST", CHAT, {"json": HELLO | {"messages": []}}),
    "unsupported_parameter": ("POST", CHAT, {"json": HELLO | {"tools": [{"type": "function"}]}}),
    "context_length_exceeded": (
        "POST",
        CHAT,
        {"json": HELLO | {"messages": [{"role": "user", "content": "x " * 9000}]}},
    ),
    "empty_prompt": ("POST", "/v1/completions", {"json": {"model": "smollm2-135m", "prompt": ""}}),
    "invalid_token_id": ("POST", "/v1/completions", {"json": {"model": "smollm2-135m", "prompt": [2**30]}}),
    "prediction_too_long": ("POST", CHAT, {"json": HELLO | {"prediction": "x " * 40_000}}),
    "invalid_api_key": ("GET", "/v1/models", {"headers": {"authorization": "Bearer sk-sg-nobody"}}),
    "permission_denied": ("GET", "/v1/organization/usage/completions?start_time=0", {}),
    "model_not_found": ("POST", CHAT, {"json": HELLO | {"model": "gpt-0"}}),
    "unknown_url": ("GET", "/v2/nothing", {}),
    "method_not_allowed": ("GET", CHAT, {}),
    "request_too_large": ("POST", CHAT, {"content": b" " * (8 * 2**20 + 1)}),
}
"""By a request alone; other rows need accidents or operators. That no row is missing is tested in test_errors."""
PARAMS = {
    "empty_prompt": "prompt",
    "invalid_token_id": "prompt",
    "missing_required_parameter": "messages",
    "unknown_parameter": "bogus",
    "invalid_type": "prediction.content",
    "invalid_value": "n",
    "empty_array": "messages",
    "unsupported_parameter": "tools",
    "context_length_exceeded": "messages",
    "prediction_too_long": "prediction",
    "model_not_found": "model",
}


class TestErrors:
    pytestmark = live

    @pytest.mark.parametrize("code", PROVOKED)
    def test_a_row(self, ready: Served, code: str) -> None:
        status, kind, _, param, _ = next(row for row in rows("Errors") if f"`{code}`" in row[2])
        method, path, request = PROVOKED[code]
        with ready.client() as client:
            response = client.request(method, path, **request)
        error = response.json()["error"]
        assert (response.status_code, f"`{error['type']}`", error["code"]) == (int(status), kind, code)
        assert error["param"] == PARAMS.get(code)
        assert (param == "–") == (error["param"] is None)


def test_every_setting_is_in_the_table_and_nothing_else() -> None:
    named = [name for row in rows("Settings") for name in re.findall(r"`([A-Z_]+)`", row[0])]
    assert sorted(named) == sorted(variable(name, field) for name, field in Settings.model_fields.items())


def test_every_default_is_that_of_the_code() -> None:
    for names, defaults, _ in rows("Settings"):
        for name, shown in zip(re.findall(r"`([A-Z_]+)`", names), defaults.split(", ") * 2, strict=False):
            default = Settings.model_fields[name.removeprefix("SPECGATE_").lower()].default
            assert shown in (
                {"–", "made"}
                if default is None
                else {str(default), f"{default:g}" if isinstance(default, float) else ""}
            ), name


def test_every_path_that_it_names_exists() -> None:
    paths = re.findall(r"`((?:gateway|inference|storage|tests|\.ci)/[^`]*)`", README)
    paths += re.findall(r"\s((?:gateway|inference)/\S+\.py)", README)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_command_that_it_names_exists() -> None:
    from typer.main import get_command

    from gateway.cli import app

    group: Any = get_command(app)
    known = {name for name in group.commands} | {
        f"{name} {sub}" for name, command in group.commands.items() for sub in getattr(command, "commands", ())
    }
    told = section("Commands").split("\nFor work on")[0].replace("\n", " ")
    listed = [name for name in re.findall(r"`(?:specgate )?([a-z][a-z -]+)`", told)]
    assert set(listed) >= group.commands.keys() - {"config", "db", "ledger"}, "a command is not in the README"
    assert [command for command in listed if command not in known] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)(?:`|  )", README, re.MULTILINE))
    assert {"serve", "test", "check"} <= named <= targets

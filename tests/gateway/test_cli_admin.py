"""The commands that speak to a running server: a tenant from its first key to its last, limits, drafters, the log."""

import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from gateway.cli.admin import show
from gateway.cli.deployments import LISTED
from tests.gateway.test_apply import call, server, told

__all__ = ["server"]


def test_a_tenant_from_its_first_key_to_its_last(server: str) -> None:
    assert told(server, "tenants", "create", "Acme", "--id", "acme")["status"] == "active"
    key = told(server, "keys", "create", "ci", "--tenant", "acme", "--model", "smollm2-135m", "--expires-in-days", "2")
    assert asks(server, key["value"]) == 200
    listed = told(server, "keys", "list", "--tenant", "acme")
    assert [(one["name"], one["allowed_models"]) for one in listed] == [("ci", ["smollm2-135m"])]
    new = told(server, "keys", "rotate", key["id"], "--tenant", "acme", "--overlap-hours", "1")
    assert (asks(server, key["value"]), asks(server, new["value"])) == (200, 200), "both, while they overlap"
    assert told(server, "keys", "revoke", new["id"], "--tenant", "acme")["deleted"] is True
    assert told(server, "tenants", "suspend", "acme")["status"] == "suspended"
    assert told(server, "tenants", "resume", "acme")["status"] == "active"
    assert told(server, "tenants", "update", "acme", "--rejected-prediction", "billed")["name"] == "Acme"
    shown = call(server, "tenants", "list")
    assert "acme" in shown.stdout
    assert "billed" in shown.stdout


def asks(server: str, key: str) -> int:
    return httpx.get(f"{server}/v1/key", headers={"authorization": f"Bearer {key}"}).status_code


def test_limits_are_set_shown_and_lifted(server: str) -> None:
    tried = told(server, "limits", "set", "tenant", "default", "concurrency=3", "--dry-run")
    assert tried == [{"field": "concurrency", "from": None, "to": 3}]
    set_ = told(server, "limits", "set", "tenant", "default", "concurrency=3", "monthly_tokens=1000")
    assert (set_["concurrency"], set_["monthly_tokens"]) == (3, 1000)
    assert "monthly_tokens" in call(server, "limits", "show", "tenant", "default").stdout
    lifted = told(server, "limits", "set", "tenant", "default", "concurrency=none")
    assert (lifted["concurrency"], lifted["monthly_tokens"]) == (None, 1000)
    wrong = call(server, "limits", "set", "tenant", "default", "speed=9")
    assert (wrong.exit_code, "speed=9 is no limit: write NAME=NUMBER" in wrong.stderr) == (2, True)


def test_drafters_are_changed_watched_and_rolled_back(server: str) -> None:
    name = "smollm2-135m"
    change = ("deployments", "update", name, '{"speculation": {"drafter": {"kind": "none"}}}', "--reason", "a test")
    tried = told(server, *change, "--dry-run")
    assert [one["field"] for one in tried["changes"]] == ["speculation.drafter.kind"]
    assert told(server, *change)["speculation"]["drafter"]["kind"] == "none"
    assert told(server, "deployments", "versions", name)[0]["reason"] == "a test"
    assert told(server, "deployments", "rollback", name, "1")["speculation"]["drafter"]["kind"] == "lookup"
    watched = call(server, "deployments", "watch", "--looks", "1")
    assert name in watched.stdout
    assert "ready" in watched.stdout
    missing = call(server, "deployments", "show", "gpt-0")
    assert "`specgate deployments list` names them all" in missing.stderr


def test_the_audit_log_is_listed_and_holds(server: str) -> None:
    told(server, "tenants", "create", "Acme", "--id", "acme")
    assert [one["type"] for one in told(server, "audit", "list", "--tenant", "acme")] == ["tenant.created"]
    report = told(server, "audit", "verify")
    assert (report["holds"], report["problems"]) == (True, [])


def test_the_audit_log_tells_of_deployments_and_prices_too(server: str) -> None:
    told(server, "deployments", "update", "smollm2-135m", '{"aliases": [{"name": "m"}]}', "--reason", "a test")
    told(server, "prices", "set", "smollm2-135m", "input=1", "output=2", "--reason", "a test")
    told(server, "tenants", "create", "Acme", "--id", "acme")
    events = told(server, "audit", "list", "--limit", "3")
    assert [(one["type"], one["organization_id"]) for one in events] == [
        ("tenant.created", "acme"),
        ("prices.updated", None),
        ("deployment.updated", None),
    ]
    assert told(server, "audit", "list", "--tenant", "acme")[0] == events[0]


def test_names_are_shown_as_they_are_and_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("[/red]x", "[bold]b", ":smile:", "\x1b[31mred\x1b]0;x\x07", "a\nb", "\u202erev", "Ünï 🎉")
    show([{"id": str(n), "name": name} for n, name in enumerate(names)], ("id", "name"), as_json=False)
    _, *lines = capsys.readouterr().out.splitlines()
    shown = ["[/red]x", "[bold]b", ":smile:", r"\x1b[31mred\x1b]0;x\x07", r"a\nb", r"\u202erev", "Ünï 🎉"]
    assert [line.split(maxsplit=1)[1].rstrip() for line in lines] == shown
    show({"id": "1", "name": "[/red]\x1b"}, ("id", "name"), as_json=False)
    assert capsys.readouterr().out.split() == ["id", "1", "name", r"[/red]\x1b"]


def test_nothing_is_cut_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    one = {"id": "dep_" + "0" * 32, "name": "a-long-name-of-a-model", "model": "another-long-name", "replicas": 1}
    one |= {"enabled": True, "state": {"phase": "ready"}, "speculation_version": {"version": 7}}
    show([one], LISTED, as_json=False)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "dep_" + "0" * 32 in shown


def test_people_read_times_as_utc(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"created_at": 1_795_991_883, "expires_at": None, "used": 3}], ("created_at", "expires_at", "used"), False)
    assert capsys.readouterr().out.splitlines()[1].split() == ["2026-11-29", "22:38:03", "-", "3"]


def test_a_key_that_is_no_longer_taken_says_what_makes_another(server: str) -> None:
    [mine] = [one["id"] for one in admin_keys(server) if one["kind"] == "operator"]
    with httpx.Client(base_url=server, headers=operator()) as api:
        assert api.delete(f"/v1/organization/admin_api_keys/{mine}").status_code == 200
    until = time.monotonic() + 5
    while (refused := call(server, "tenants", "list")).exit_code == 0 and time.monotonic() < until:
        time.sleep(0.05)
    assert refused.exit_code == 1
    assert "run `specgate keys reset-admin`" in refused.stderr


def admin_keys(server: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = httpx.get(f"{server}/v1/organization/admin_api_keys", headers=operator()).json()[
        "data"
    ]
    return found


def operator() -> dict[str, str]:
    held = json.loads((Path(os.environ["SPECGATE_HOME"]) / "credentials.json").read_text())
    return {"authorization": f"Bearer {held['operator_key']}"}


def test_a_month_is_priced_adjusted_and_stated(server: str) -> None:
    name = "smollm2-135m"
    priced = told(server, "prices", "set", name, "input=1000000", "output=2000000", "--reason", "to begin with")
    assert (priced["version"], priced["cached"], priced["rejected"]) == (1, 1000000, 2000000)
    assert "to begin with" in call(server, "prices", "show", name).stdout
    wrong = call(server, "prices", "set", name, "speed=9", "--reason", "x")
    assert (wrong.exit_code, "speed=9 is no price: write NAME=MICROS" in wrong.stderr) == (2, True)
    key = told(server, "keys", "create", "ci")["value"]
    body = {"model": name, "prompt": "x", "metadata": {"workload": "ci"}}
    asked = httpx.post(f"{server}/v1/completions", json=body, headers={"authorization": f"Bearer {key}"}, timeout=20)
    id = asked.headers["x-request-id"]
    made = told(server, "ledger", "adjust", "--request", id, "--micros", "-5", "--reason", "a fault of ours")
    assert (made["request_id"], made["micros"], made["organization_id"]) == (id, -5, "default")
    month = datetime.now(UTC).strftime("%Y-%m")
    stated = told(server, "usage", "statement", "--tenant", "default", "--month", month)
    usage = asked.json()["usage"]
    assert stated["total_micros"] == usage["prompt_tokens"] + 2 * usage["completion_tokens"] - 5
    shown = call(server, "usage", "statement", "--month", month).stdout
    assert "a fault of ours" in shown
    assert stated["total"] in shown
    assert call(server, "ledger", "adjust", "--request", "no", "--micros", "1", "--reason", "x").exit_code == 1
    assert call(server, "usage", "statement", "--month", "May").exit_code == 1


@pytest.mark.parametrize("command", [("tenants", "show", "nobody"), ("limits", "show", "tenant", "nobody")])
def test_a_refusal_is_told_in_the_servers_words(server: str, command: tuple[str, ...]) -> None:
    done = call(server, *command)
    assert done.exit_code == 1
    assert "answered 404" in done.stderr


def test_every_command_that_answers_has_json() -> None:
    from typer.main import get_command

    from gateway.cli import app

    groups = get_command(app).commands  # type: ignore[attr-defined]
    admin = [sub for name in ("tenants", "deployments", "limits", "audit") for sub in groups[name].commands.values()]
    admin += [groups[name] for name in ("diff", "apply", "usage")]
    assert [one.name for one in admin if not any("--json" in p.opts for p in one.params)] == []


def test_no_command_but_those_of_the_machine_opens_the_database() -> None:
    folder = Path(__file__).resolve().parents[2] / "gateway" / "cli"
    opening = sorted(path.name for path in folder.glob("*.py") if "Database.open" in path.read_text())
    assert opening == ["database.py", "keys.py", "rebuild.py", "workers.py"]

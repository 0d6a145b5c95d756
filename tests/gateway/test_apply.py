"""A server becomes what a file says, through its admin API: shown first, idempotent, and never over another's work."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import yaml
from typer.testing import CliRunner, Result

from gateway.cli import app
from gateway.cli.declared import schema
from tests.gateway.forked import serving

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "specgate.example.yaml"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A gateway process with an engine by script; commands find its keys in its home."""
    home = tmp_path / "home"
    for name in ("HOST", "PORT", "DATABASE_URL", "SPECGATE_CONFIG", "SPECGATE_ADMIN_BIND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPECGATE_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "200")
    with serving(home) as url:
        yield url


def call(server: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--base-url", server])


def told(server: str, *arguments: str) -> Any:
    """What a command says with --json."""
    done = call(server, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def write(tmp_path: Path, document: Any) -> str:
    path = tmp_path / "specgate.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def targets(result: Result) -> list[tuple[str, str]]:
    return [(one["action"], one["target"]) for one in json.loads(result.stdout)]


def test_the_example_is_applied_once_and_then_nothing_differs(server: str, tmp_path: Path) -> None:
    file = tmp_path / "specgate.yaml"
    file.write_text(EXAMPLE.read_text())
    before = call(server, "diff", "-f", str(file), "--json")
    assert before.exit_code == 1
    assert targets(before) == [
        ("update", "deployment smollm2-135m"),
        ("update", "prices of smollm2-135m"),
        ("create", "tenant acme"),
        ("update", "limits of tenant acme"),
        ("create", "project editor of acme"),
        ("update", "limits of project editor of acme"),
        ("create", "key editor-backend of editor of acme"),
        ("update", "limits of key editor-backend of editor of acme"),
    ]
    done = call(server, "apply", "-f", str(file))
    assert done.exit_code == 0, done.output
    assert "speculation.auto_disable.min_acceptance: None → 0.05" in done.stdout
    assert told(server, "prices", "show", "smollm2-135m")["rejected"] == 600_000, "as output, where it is left out"
    again = call(server, "diff", "-f", str(file))
    assert (again.exit_code, again.stdout) == (0, "Nothing differs.\n")
    assert call(server, "apply", "-f", str(file)).stdout == "Nothing differs.\n"
    secret = tmp_path / "secrets" / "editor-backend.key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    headers = {"authorization": f"Bearer {secret.read_text().strip()}"}
    key = httpx.get(f"{server}/v1/key", headers=headers).json()
    assert (key["organization_id"], key["models"]) == ("acme", ["smollm2-135m"])
    assert {limit["scope"] for limit in key["limits"]} == {"tenant", "project", "key"}
    assert secret.read_text().strip() not in done.output


def test_what_another_author_changed_last_needs_force(server: str, tmp_path: Path) -> None:
    other = told(server, "tenants", "create", "Other", "--id", "other")
    assert other["status"] == "active"
    with httpx.Client(base_url=server, headers=operator(tmp_path)) as api:
        made = api.post("/v1/organization/admin_api_keys", json={"name": "colleague", "kind": "operator"}).json()
        theirs = {"authorization": f"Bearer {made['value']}", "if-match": '"1"'}
        assert api.patch("/admin/v1/tenants/other", json={"name": "Theirs"}, headers=theirs).status_code == 200
    file = write(tmp_path, {"tenants": [{"id": "other", "name": "Ours"}]})
    refused = call(server, "apply", "-f", file)
    assert refused.exit_code == 1
    assert f"another author changed tenant other (by {made['id']}) last" in refused.stderr
    assert told(server, "tenants", "show", "other")["name"] == "Theirs"
    assert call(server, "apply", "-f", file, "--force").exit_code == 0
    assert told(server, "tenants", "show", "other")["name"] == "Ours"
    assert call(server, "apply", "-f", file).stdout == "Nothing differs.\n"


def test_another_authors_change_beside_the_drafters_needs_force_too(server: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=server, headers=operator(tmp_path)) as api:
        made = api.post("/v1/organization/admin_api_keys", json={"name": "colleague", "kind": "operator"}).json()
        id = api.get("/admin/v1/deployments").json()["data"][0]["id"]
        theirs = {"authorization": f"Bearer {made['value']}", "if-match": "*"}
        change = {"aliases": [{"name": "theirs"}], "reason": "a test"}
        assert api.patch(f"/admin/v1/deployments/{id}", json=change, headers=theirs).status_code == 200
    file = write(tmp_path, {"deployments": [{"name": "smollm2-135m", "model": "smollm2-135m", "aliases": []}]})
    refused = call(server, "apply", "-f", file)
    assert refused.exit_code == 1
    assert f"another author changed deployment smollm2-135m (by {made['id']}) last" in refused.stderr
    assert call(server, "apply", "-f", file, "--force").exit_code == 0
    assert told(server, "deployments", "list")[0]["aliases"] == []


def test_only_prune_deletes(server: str, tmp_path: Path) -> None:
    members = '{"engine_url": "http://[::1]:9", "enabled": false}'
    told(server, "deployments", "create", "spare", "m", "--with", members)
    file = write(tmp_path, {"deployments": [{"name": "smollm2-135m", "model": "smollm2-135m"}]})
    assert call(server, "apply", "-f", file).stdout == "Nothing differs.\n"
    assert targets(call(server, "diff", "-f", file, "--prune", "--json")) == [("delete", "deployment spare")]
    assert call(server, "apply", "-f", file, "--prune").exit_code == 0
    assert [one["name"] for one in told(server, "deployments", "list")] == ["smollm2-135m"]


def operator(tmp_path: Path) -> dict[str, str]:
    keys = json.loads((tmp_path / "home" / "credentials.json").read_text())
    return {"authorization": f"Bearer {keys['operator_key']}"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"tenant": []}, "tenant: Extra inputs are not permitted"),
        ({"tenants": [{"id": "A B"}]}, "tenants.0.id"),
        ({"deployments": [{"name": "m", "model": "m", "speculation": {"drafter": {"kind": "eagle"}}}]}, "not built"),
        ({"tenants": [{"id": "a", "projects": [{"name": "p", "keys": [{"name": "k"}]}]}]}, "secret_file"),
        ({"tenants": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, "tenants: a stands here more than once"),
        ({"deployments": [{"name": "m", "model": "m"}] * 2}, "deployments: m stands here more than once"),
        ({"tenants": [{"id": "a", "projects": [{"name": "p"}] * 2}]}, "tenants.0.projects: p stands here more than"),
        (
            {"tenants": [{"id": "a", "projects": [{"name": "p", "keys": [{"name": "k", "secret_file": "f"}] * 2}]}]},
            "tenants.0.projects.0.keys: k stands here more than once",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(document: Any, reason: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diff", "-f", write(tmp_path, document)])
    assert done.exit_code == 2
    assert reason in done.stderr


def test_the_published_schema_is_that_of_the_code_and_the_example_keeps_it() -> None:
    published = json.loads((ROOT / "specgate.schema.json").read_text())
    assert published == schema(), "make it anew: specgate schema > specgate.schema.json"
    jsonschema_rs.validate(published, yaml.safe_load(EXAMPLE.read_text()))

"""OpenAI's organization admin API, as the official client drives it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from storage.api_keys import ApiKeys
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, chat_body, client, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def official(gateway: Gateway, admin_key: str | None = None, **more: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    keys = {"api_key": gateway.key, "admin_api_key": admin_key or gateway.operator_key}
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", max_retries=0, **keys, **more) as found:
        yield found


async def tenant_admin(gateway: Gateway, tenant_id: str = "default", **more: Any) -> str:
    async with gateway.parts.db.unit() as session:
        return (await ApiKeys(session).create(tenant_id, "tenant_admin", "an admin", **more)).key


async def test_projects(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        projects = api.admin.organization.projects
        made = await projects.create(name="Search")
        assert (made.object, made.name, made.status, made.archived_at) == (
            "organization.project",
            "Search",
            "active",
            None,
        )
        assert (await projects.retrieve(made.id)) == made
        renamed = await projects.update(made.id, name="Search 2")
        assert (renamed.id, renamed.name, renamed.version) == (made.id, "Search 2", 2)  # type: ignore[attr-defined]
        archived = await projects.archive(made.id)
        assert archived.status == "archived"
        assert isinstance(archived.archived_at, int)
        assert [p.id async for p in projects.list()] == ["proj_default"]
        assert [p.id async for p in projects.list(include_archived=True)] == ["proj_default", made.id]


async def test_lists_go_on_from_a_cursor(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        projects = api.admin.organization.projects
        made = [(await projects.create(name=f"p{number}")).id for number in range(5)]
        everything = ["proj_default", *made]
        assert [project.id async for project in projects.list(limit=2)] == everything
        page = await projects.list(limit=2, after=made[0])
        assert ([p.id for p in page.data], page.has_more, page.last_id) == (made[1:3], True, made[2])
        last = await projects.list(limit=3, after=made[1])
        assert (last.has_more, len(last.data)) == (False, 3)
        with pytest.raises(openai.NotFoundError) as refused:
            await projects.list(after="proj_nowhere")
        assert refused.value.param == "after"


async def test_a_service_account_comes_with_a_key_that_runs_models_on_its_project(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        project = await api.admin.organization.projects.create(name="Search")
        accounts = api.admin.organization.projects.service_accounts
        account = await accounts.create(project.id, name="indexer", expires_in_seconds=3600)
        assert account.api_key is not None
        assert (account.role, account.object) == ("member", "organization.project.service_account")
        assert account.api_key.expires_at == account.api_key.created_at + 3600
        async with client(gateway.url, account.api_key.value) as http:
            assert (await http.post("/v1/chat/completions", json=chat_body())).status_code == 200
        [row] = await gateway.rows("settle")
        assert (row.project_id, row.key_id) == (project.id, account.api_key.id)

        keys = api.admin.organization.projects.api_keys
        [key] = [key async for key in keys.list(project.id)]
        assert key.id == account.api_key.id
        assert key.owner.service_account is not None
        assert (key.owner.type, key.owner.service_account.id) == ("service_account", account.id)
        assert account.api_key.value not in key.model_dump_json()
        alone = await accounts.create(project.id, name="later", create_service_account_only=True)
        assert (alone.api_key, alone.role) == (None, "none")
        second = await accounts.api_keys.create(alone.id, project_id=project.id, name="first")
        assert second.value.startswith("sk-sg-")
        assert [a.name async for a in accounts.list(project.id)] == ["indexer", "later"]
        updated = await accounts.update(account.id, project_id=project.id, name="reader", role="owner")
        assert ((await accounts.retrieve(account.id, project_id=project.id)).name, updated.role) == ("reader", "owner")
        assert (await accounts.delete(account.id, project_id=project.id)).deleted
        assert [key.id async for key in keys.list(project.id)] == [second.id]
        with pytest.raises(openai.NotFoundError):
            await accounts.retrieve(account.id, project_id=project.id)


async def test_keys_are_changed_and_deleted(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        keys = api.admin.organization.projects.api_keys
        made = await api.admin.organization.projects.service_accounts.create("proj_default", name="one")
        assert made.api_key is not None
        changed = await keys.update(
            made.api_key.id, project_id="proj_default", expires_in_seconds=60, scopes=["inference"]
        )
        assert changed.expires_at is not None
        assert changed.scopes == ["inference"]  # type: ignore[attr-defined]
        assert (await keys.update(made.api_key.id, project_id="proj_default", scopes=[])).scopes == []  # type: ignore[attr-defined]
        assert (await keys.delete(made.api_key.id, project_id="proj_default")).deleted
        with pytest.raises(openai.NotFoundError):
            await keys.retrieve(made.api_key.id, project_id="proj_default")
        with pytest.raises(openai.NotFoundError):
            await keys.delete(made.api_key.id, project_id="proj_default")


async def test_admin_keys(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        admin_keys = api.admin.organization.admin_api_keys
        made = await admin_keys.create(name="billing", expires_in_seconds=600)
        assert made.object == "organization.admin_api_key"
        kept = await admin_keys.retrieve(made.id)
        assert kept.redacted_value == f"sk-sg-{made.id}-…"
        assert made.value not in kept.model_dump_json()
        async with official(gateway, made.value) as theirs:
            found = [key.id async for key in theirs.admin.organization.admin_api_keys.list()]
            assert found == [made.id], "a tenant admin does not see operator keys"
            with pytest.raises(openai.PermissionDeniedError):
                await theirs.admin.organization.admin_api_keys.create(name="x", extra_body={"kind": "operator"})
        newest = [key.id async for key in admin_keys.list(order="desc", limit=1)]
        assert (len(newest), newest[0]) == (2, made.id)
        assert (await admin_keys.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await admin_keys.retrieve(made.id)


async def test_rate_limits(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        limits = api.admin.organization.projects.rate_limits
        [none] = [limit async for limit in limits.list_rate_limits("proj_default")]
        assert (none.model, none.max_requests_per_1_minute) == ("*", 2**31 - 1)
        some = await limits.update_rate_limit(
            none.id, project_id="proj_default", max_requests_per_1_minute=100, max_tokens_per_1_minute=5000
        )
        assert (some.max_requests_per_1_minute, some.max_tokens_per_1_minute) == (100, 5000)
        assert some.max_output_tokens_per_1_minute == 5000  # type: ignore[attr-defined]
        [kept] = [limit async for limit in limits.list_rate_limits("proj_default")]
        assert kept == some


async def test_an_operator_acts_in_the_tenant_it_names(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        async with client(gateway.url, gateway.operator_key) as operator:
            assert (await operator.post("/admin/v1/tenants", json={"id": "acme", "name": "Acme"})).status_code == 200
        async with official(gateway, organization="acme") as api:
            assert [p.id async for p in api.admin.organization.projects.list()] == ["proj_acme"]
        async with official(gateway, organization="nobody") as api:
            with pytest.raises(openai.NotFoundError):
                await api.admin.organization.projects.list()


async def test_the_audit_log_tells_every_change(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, official(gateway) as api:
        logs = api.admin.organization.audit_logs
        project = await api.admin.organization.projects.create(name="Search")
        await api.admin.organization.projects.update(project.id, name="Search 2")
        account = await api.admin.organization.projects.service_accounts.create(project.id, name="indexer")
        await api.admin.organization.projects.archive(project.id)
        newest_first = [event.type async for event in logs.list(limit=2)]
        assert newest_first[:5] == [
            "project.archived",
            "api_key.created",
            "service_account.created",
            "project.updated",
            "project.created",
        ]
        [renamed] = [event async for event in logs.list(event_types=["project.updated"], resource_ids=[project.id])]
        assert renamed.project_updated is not None
        assert renamed.actor is not None
        assert renamed.actor.api_key is not None
        assert renamed.actor.api_key.id == gateway.operator_key.split("-")[2]
        assert (renamed.before["name"], renamed.after["name"]) == ("Search", "Search 2")  # type: ignore[attr-defined]
        assert renamed.source == "127.0.0.1"  # type: ignore[attr-defined]
        of_project = [event async for event in logs.list(project_ids=[project.id], effective_at={"gte": 1})]
        assert len(of_project) == 5
        assert [e async for e in logs.list(effective_at={"lt": 1})] == []
        assert [e async for e in logs.list(actor_ids=["nobody"])] == []
        assert account.api_key is not None
        assert account.api_key.value.rsplit("-", 1)[1] not in repr(of_project)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/organization/projects", {"name": "x", "tenant_id": "acme"}, "tenant_id"),
        ("/v1/organization/projects", {"name": "x", "version": 9}, "version"),
        ("/v1/organization/projects/proj_default", {"is_default": False}, "is_default"),
        ("/v1/organization/projects/proj_default/service_accounts", {"name": "x", "role": "owner"}, "role"),
        (
            "/v1/organization/projects/proj_default/service_accounts",
            {"name": "x", "scopes": ["tenants.write"]},
            "scopes",
        ),
        ("/v1/organization/projects/proj_default/service_accounts", {"name": ""}, "name"),
        ("/v1/organization/projects", {"name": "\x1b[31mred"}, "name"),
        ("/v1/organization/projects/proj_default", {"name": "a\nb"}, "name"),
        ("/v1/organization/admin_api_keys", {"name": "\u202erev"}, "name"),
        ("/admin/v1/tenants", {"name": "a\x7f"}, "name"),
        ("/v1/organization/projects/proj_default/service_accounts", {"name": "sk-sg-aaaaaaaaaaaa-" + "x" * 43}, "name"),
        ("/v1/organization/admin_api_keys", {"name": "x", "tenant_id": "acme"}, "tenant_id"),
        ("/v1/organization/admin_api_keys", {"name": "x", "expires_in_seconds": 0}, "expires_in_seconds"),
        ("/admin/v1/tenants", {"name": "x", "id": "No Spaces"}, "id"),
        ("/admin/v1/tenants", {"name": "x", "suspended_at": 1}, "suspended_at"),
    ],
)
async def test_bodies_are_strict(tmp_path: Path, path: str, body: dict[str, Any], param: str) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        refused = await operator.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        assert "x" * 43 not in refused.text

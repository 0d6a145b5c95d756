"""Who may call what: every route of the application, every kind of key, two tenants.

Generated from `gateway.access.ROUTES`: own → 2xx; another tenant's → the very answer of what does not exist, and no
trace left; a kind of key that may not → 403.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from gateway import access
from gateway.app import build_app
from gateway.errors import PermissionDenied
from storage.models import metadata
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.route_cases import BODIES, QUERIES, SHARED, UNKNOWN, Owned, owned
from tests.gateway.running import Gateway, client, running

pytestmark = pytest.mark.anyio
Call = tuple[str, str]
OF_EVERY_TENANT = ("/admin/", "/metrics")
BY_JOBS = ("rollup_state",)
"""Tables that the gateway writes by itself while it runs."""


async def test_every_route_has_a_row_and_every_row_a_route(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        app = build_app(gateway.parts, with_admin=True)
        served = {(m.upper(), path) for path, methods in app.openapi()["paths"].items() for m in methods}
        rows = set(access.ROUTES) | access.NO_KEY
        assert served == {(method, path.replace(":path}", "}")) for method, path in rows}
        assert set(access.HOLDERS) == set(access.SCOPES)


@pytest.mark.parametrize("scopes", [frozenset(), frozenset({"organization.read"})])
def test_a_scope_that_a_key_was_made_without_is_refused(scopes: frozenset[str]) -> None:
    access.require("GET", "/v1/models", "tenant_admin", scopes)
    with pytest.raises(PermissionDenied, match=r"organization\.write"):
        access.require("POST", "/v1/organization/projects", "tenant_admin", scopes)
    with pytest.raises(PermissionDenied, match="No key"):
        access.require("GET", "/v1/unlisted", "operator", None)


@pytest.mark.parametrize(
    "path", ["projects/%00", "projects/p%00q/api_keys", "projects?after=%00", "audit_logs?before=a%00"]
)
async def test_a_nul_in_a_url_is_refused(tmp_path: Path, path: str) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        refused = await operator.get(f"/v1/organization/{path}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_value")


@pytest.mark.timeout(240)
async def test_two_tenants_and_every_kind_of_key(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        for call, kind in itertools.product(access.ROUTES, access.KINDS):
            with subtests.test(call=" ".join(call), kind=kind):
                async with gateway.parts.db.unit() as session:
                    ours, theirs = await owned(session), await owned(session)
                async with _client(gateway, ours, kind) as http:
                    if kind not in access.HOLDERS[access.ROUTES[call]]:
                        await _is_forbidden(gateway, http, call, ours)
                        continue
                    await _others_are_not_found(gateway, http, call, kind, ours, theirs)
                    await _own_is_served(http, call, kind, ours, theirs)


async def _is_forbidden(gateway: Gateway, http: httpx.AsyncClient, call: Call, ours: Owned) -> None:
    before = await _everything(gateway)
    answer = await _ask(http, call, _own(call, ours))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")
    assert await _everything(gateway) == before


async def _others_are_not_found(
    gateway: Gateway, http: httpx.AsyncClient, call: Call, kind: str, ours: Owned, theirs: Owned
) -> None:
    """Each parameter alone, and all of them, are another's; an operator owns every tenant."""
    names = [name for name in _parameters(call) if name not in SHARED]
    if kind == "operator":
        names = [name for name in names if name not in ("tenant_id", "deployment_id", "limited_id", "request_id")]
    before = await _everything(gateway)
    for changed in [{name} for name in names] + ([set(names)] if len(names) > 1 else []):
        own = _own(call, ours)
        foreign = await _ask(http, call, own | {name: theirs.of(call[1], name) for name in changed})
        unknown = await _ask(http, call, own | {name: UNKNOWN[name] for name in changed})
        assert (foreign.status_code, foreign.json()) == (404, unknown.json()), changed
        assert unknown.status_code == 404
    if call[1].startswith("/v1/organization") and kind == "tenant_admin":
        foreign = await _ask(http, call, _own(call, ours), organization=theirs.tenant_id)
        unknown = await _ask(http, call, _own(call, ours), organization="nobody")
        assert (foreign.status_code, foreign.json()) == (unknown.status_code, unknown.json())
        assert foreign.status_code == 404
    assert await _everything(gateway) == before


async def _own_is_served(http: httpx.AsyncClient, call: Call, kind: str, ours: Owned, theirs: Owned) -> None:
    """An operator's own are all tenants: it is asked about the one that its key does not belong to."""
    own = _own(call, theirs if kind == "operator" and call[1].startswith("/admin/") else ours)
    answer = await _ask(http, call, own, organization=ours.tenant_id)
    assert answer.status_code == 200, answer.text
    if not call[1].startswith(OF_EVERY_TENANT):
        for private in (theirs.tenant_id, theirs.project_id, theirs.account_id, theirs.key_id, theirs.admin_key_id):
            assert private not in answer.text


async def _ask(
    http: httpx.AsyncClient, call: Call, values: dict[str, str], organization: str | None = None
) -> httpx.Response:
    method, path = call
    url = re.sub(r"{([^}]+)}", lambda match: values[match[1]], path)
    headers = {"if-match": "*"} | ({"openai-organization": organization} if organization else {})
    body = {} if method in ("GET", "DELETE") else {"json": BODIES.get(call, {})}
    return await http.request(method, url, params=QUERIES.get(call), headers=headers, **body)  # type: ignore[arg-type]


def _own(call: Call, ours: Owned) -> dict[str, str]:
    return {name: SHARED.get(name) or ours.of(call[1], name) for name in _parameters(call)}


def _parameters(call: Call) -> list[str]:
    return re.findall(r"{([^}]+)}", call[1])


def _client(gateway: Gateway, ours: Owned, kind: Any) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {ours.keys[kind]}"}
    return httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=20, trust_env=False)


async def _everything(gateway: Gateway) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table; only when a key was last used and how long a gateway lives may change meanwhile."""
    async with gateway.parts.db.view() as session:
        return {
            table.name: [
                tuple(row)
                for row in await session.execute(
                    select(*(column for column in table.c if column.name not in ("last_used_at", "lease_until")))
                )
            ]
            for table in metadata.sorted_tables
            if table.name not in BY_JOBS
        }

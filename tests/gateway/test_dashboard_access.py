"""Who may open which page: every page, every kind of key, two tenants, by what `gateway.access` says."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway import access
from gateway.app import calls_of
from gateway.dashboard import pages, sign_in
from storage.values import KeyKind
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.route_cases import Owned, owned
from tests.gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
OPEN = set(calls_of((pages.open_pages, sign_in.router)))
FORMS = {
    "/dashboard/deployments/{deployment_id}": {"version": "1", "action": "save", "reason": "x"},
    "/dashboard/deployments/{deployment_id}/rollback": {"version": "2", "to": "1", "reason": "x"},
}
NO_PAGE = "/dashboard/{rest:path}"


def test_every_page_has_a_row_and_every_row_a_page() -> None:
    assert set(calls_of(pages.ROUTERS)) - OPEN == set(access.PAGES)


async def test_two_tenants_and_every_kind_of_key(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        async with gateway.parts.db.unit() as session:
            ours, theirs = await owned(session), await owned(session)
        for kind in access.KINDS:
            async with _signed_in(gateway, ours, kind) as http:
                for call in access.PAGES:
                    if call != ("POST", "/dashboard/sign-out"):
                        with subtests.test(kind=kind, call=" ".join(call)):
                            await _is_served_or_refused(http, call, kind, ours, theirs)


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/usage.csv", "/dashboard/limits"])
@pytest.mark.parametrize("kind", ["inference", "tenant_admin"])
async def test_another_tenant_is_not_there(tmp_path: Path, path: str, kind: KeyKind) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        async with gateway.parts.db.unit() as session:
            ours, theirs = await owned(session), await owned(session)
        async with _signed_in(gateway, ours, kind) as http:
            own = await http.get(path, params={"tenant": ours.tenant_id})
            foreign = await http.get(path, params={"tenant": theirs.tenant_id})
            unknown = await http.get(path, params={"tenant": "nowhere"})
            assert (own.status_code, foreign.status_code, foreign.json()) == (200, 404, unknown.json())
            for private in (theirs.tenant_id, theirs.project_id, theirs.key_id, theirs.admin_key_id):
                assert private not in own.text


async def test_a_bind_without_admin_routes_has_no_dashboard(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), admin_bind="127.0.0.1:1") as gateway:
        assert (await gateway.http.get("/dashboard")).json()["error"]["code"] == "unknown_url"


async def _is_served_or_refused(
    http: httpx.AsyncClient, call: tuple[str, str], kind: KeyKind, ours: Owned, theirs: Owned
) -> None:
    method, template = call
    path = re.sub(r"{([^}]+)}", lambda match: "nothing" if match[1] == "rest:path" else theirs.deployment_id, template)
    token = await csrf(http)
    answer = await http.request(
        method, path, data=FORMS.get(template, {}) | {"csrf": token} if method == "POST" else None
    )
    if kind not in access.HOLDERS[access.PAGES[call]]:
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")
        return
    assert answer.status_code == (404 if template == NO_PAGE else 303 if method == "POST" else 200), answer.text
    if kind != "operator":
        assert theirs.tenant_id not in answer.text


@asynccontextmanager
async def _signed_in(gateway: Gateway, whose: Owned, kind: KeyKind) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20, trust_env=False) as http:
        sent = {"csrf": await csrf(http, "/dashboard/sign-in"), "key": whose.keys[kind]}
        assert (await http.post("/dashboard/sign-in", data=sent)).status_code == 303
        yield http


async def csrf(http: httpx.AsyncClient, path: str = "/dashboard/limits") -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', (await http.get(path)).text)
    assert found is not None
    return found[1]

"""Tenants over HTTP: two editors, patches that say only what they may, suspension."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, client, running

pytestmark = pytest.mark.anyio
TENANTS = "/admin/v1/tenants"
ACME = f"{TENANTS}/acme"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running(tmp_path, FakeEngine()) as found:
        yield found


@pytest.fixture
async def operator(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with client(gateway.url, gateway.operator_key) as http:
        await http.post(TENANTS, json={"id": "acme", "name": "Acme"})
        yield http


def _told(answer: httpx.Response) -> tuple[int, str, str]:
    return answer.status_code, answer.json()["error"]["code"], answer.headers["etag"]


async def _patch(operator: httpx.AsyncClient, etag: str | None = None, **members: Any) -> httpx.Response:
    return await operator.patch(ACME, json=members, headers={"if-match": etag} if etag else {})


async def test_a_tenant_is_made_once(operator: httpx.AsyncClient) -> None:
    made = (await operator.get(ACME)).json()
    assert made | {"created_at": 0} == {
        "object": "tenant",
        "id": "acme",
        "name": "Acme",
        "rejected_prediction": "free",
        "holdout_includes_prediction": False,
        "status": "active",
        "created_at": 0,
        "suspended_at": None,
        "erased_at": None,
        "version": 1,
    }
    again = await operator.post(TENANTS, json={"id": "acme", "name": "Another"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "name_taken")
    drawn = (await operator.post(TENANTS, json={"name": "Drawn"})).json()
    assert drawn["id"].startswith("org-")
    assert [t["id"] for t in (await operator.get(TENANTS)).json()["data"]] == ["default", "acme", drawn["id"]]


async def test_of_two_editors_one_is_told_to_read_again(operator: httpx.AsyncClient) -> None:
    etag = (await operator.get(ACME)).headers["etag"]
    assert etag == '"1"'
    assert _told(await _patch(operator, name="x")) == (428, "if_match_required", '"1"')
    first = await _patch(operator, etag, rejected_prediction="billed")
    assert (first.status_code, first.headers["etag"], first.json()["version"]) == (200, '"2"', 2)
    late = await _patch(operator, etag, name="Late")
    assert _told(late) == (412, "version_mismatch", '"2"')
    assert '"2"' in late.json()["error"]["message"]
    now = (await operator.get(ACME)).json()
    assert (now["name"], now["rejected_prediction"]) == ("Acme", "billed")
    assert (await _patch(operator, f"W/{first.headers['etag']}", name="Weak")).status_code == 200
    assert (await _patch(operator, "*", name="Any")).status_code == 200


async def test_at_the_same_moment_one_editor_wins(operator: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(_patch(operator, '"1"', name=f"n{number}") for number in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7


async def test_a_patch_that_changes_nothing_makes_no_version(operator: httpx.AsyncClient) -> None:
    assert (await _patch(operator, '"1"', name="Acme")).json()["version"] == 1


@pytest.mark.parametrize(
    ("members", "code", "param"),
    [
        ({"tenant_id": "x"}, "unknown_parameter", "tenant_id"),
        ({"version": 7}, "unknown_parameter", "version"),
        ({"id": "mine"}, "unknown_parameter", "id"),
        ({"role": "owner"}, "unknown_parameter", "role"),
        ({"suspended_at": None, "name": None}, "missing_required_parameter", "name"),
        ({"rejected_prediction": "never"}, "invalid_value", "rejected_prediction"),
        ({"name": 5}, "invalid_type", "name"),
    ],
)
async def test_a_patch_says_only_what_it_may(
    operator: httpx.AsyncClient, members: dict[str, Any], code: str, param: str
) -> None:
    refused = await _patch(operator, '"1"', **members)
    assert (refused.status_code, refused.json()["error"]["code"], refused.json()["error"]["param"]) == (
        400,
        code,
        param,
    )
    assert (await operator.get(ACME)).headers["etag"] == '"1"'


async def test_a_suspended_tenant_is_resumed(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    headers = {"openai-organization": "acme"}
    made = await operator.post("/v1/organization/admin_api_keys", json={"name": "a"}, headers=headers)
    async with client(gateway.url, made.json()["value"]) as admin:
        assert (await operator.post(f"{ACME}/suspend")).json()["status"] == "suspended"
        assert (await operator.post(f"{ACME}/suspend")).json()["version"] == 2, "twice is once"
        refused = await admin.get("/v1/organization/projects")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "tenant_suspended")
        assert (await operator.post(f"{ACME}/resume")).json()["status"] == "active"
        assert (await admin.get("/v1/organization/projects")).status_code == 200
    own = await operator.post(f"{TENANTS}/default/suspend")
    assert (own.status_code, own.json()["error"]["code"]) == (409, "conflict")


async def test_the_chain_holds_and_ends_where_the_last_change_said(operator: httpx.AsyncClient) -> None:
    await _patch(operator, '"1"', name="Acme 2")
    report = (await operator.get("/admin/v1/audit/verify")).json()
    assert (report["holds"], report["problems"], report["erased"]) == (True, [], 0)
    assert report["events"] == report["head"]["seq"] == 4

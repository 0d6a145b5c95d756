"""What a key may do, and until when: models, scopes, expiry, rotation with overlap."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import MODEL, Gateway, chat_body, client, running

pytestmark = pytest.mark.anyio
ACCOUNTS = "/v1/organization/projects/proj_default/service_accounts"
KEYS = "/v1/organization/projects/proj_default/api_keys"
ADMIN_KEYS = "/v1/organization/admin_api_keys"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running(tmp_path, FakeEngine()) as found:
        yield found


@pytest.fixture
async def operator(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with client(gateway.url, gateway.operator_key) as http:
        yield http


async def _new_key(operator: httpx.AsyncClient, **options: Any) -> dict[str, Any]:
    answer = await operator.post(ACCOUNTS, json={"name": "one"} | options)
    assert answer.status_code == 200, answer.text
    key: dict[str, Any] = answer.json()["api_key"]
    return key


async def _ask(gateway: Gateway, key: str, **members: Any) -> httpx.Response:
    async with client(gateway.url, key) as http:
        return await http.post("/v1/chat/completions", json=chat_body(**members))


async def _events(operator: httpx.AsyncClient, *types: str) -> list[dict[str, Any]]:
    query = {"event_types[]": list(types), "limit": 100}
    events: list[dict[str, Any]] = (await operator.get("/v1/organization/audit_logs", params=query)).json()["data"]
    return events


async def test_a_key_calls_and_lists_what_it_may_use(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    key = await _new_key(operator, allowed_models=["other-model"])
    refused = await _ask(gateway, key["value"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert refused.json()["error"]["message"].endswith("Models this key may use: none.")
    async with client(gateway.url, key["value"]) as http:
        assert (await http.get("/v1/models")).json()["data"] == []
        assert (await http.get(f"/v1/models/{MODEL}")).status_code == 404
    allowed = await operator.post(f"{KEYS}/{key['id']}", json={"allowed_models": ["other-model", MODEL]})
    assert allowed.json()["allowed_models"] == ["other-model", MODEL]
    await asyncio.sleep(1.05)
    assert (await _ask(gateway, key["value"])).status_code == 200
    everything = await operator.post(f"{KEYS}/{key['id']}", json={"allowed_models": None})
    assert everything.json()["allowed_models"] is None


async def test_an_expired_key_is_refused(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    key = await _new_key(operator, expires_in_seconds=1)
    assert (await _ask(gateway, key["value"])).status_code == 200
    await asyncio.sleep(1.05)
    assert (await _ask(gateway, key["value"])).status_code == 401


async def test_both_keys_are_good_in_the_overlap_and_the_new_one_after(
    gateway: Gateway, operator: httpx.AsyncClient
) -> None:
    old = await _new_key(operator, allowed_models=[MODEL], expires_in_seconds=1000)
    assert (await _ask(gateway, old["value"])).status_code == 200
    new = (await operator.post(f"{KEYS}/{old['id']}/rotate", json={"overlap_seconds": 2})).json()
    rotated = time.monotonic()
    assert (new["rotated_from"], new["name"]) == (old["id"], old["name"])
    assert abs(new["expires_at"] - new["created_at"] - 1000) <= 1
    kept = (await operator.get(f"{KEYS}/{old['id']}")).json()
    assert 0 <= kept["overlap_until"] - new["created_at"] - 2 <= 1
    for key in (old, new):
        assert (await _ask(gateway, key["value"])).status_code == 200
    again = await operator.post(f"{KEYS}/{old['id']}/rotate", json={})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    await asyncio.sleep(max(0.0, rotated + 2.0 - time.monotonic()))
    assert (await _ask(gateway, old["value"])).status_code == 401
    assert (await _ask(gateway, new["value"])).status_code == 200
    assert (await operator.get(f"{KEYS}/{old['id']}")).status_code == 404
    created, replaced = (await _events(operator, "api_key.rotated", "api_key.created"))[:2]
    assert (created["after"]["id"], replaced["type"]) == (new["id"], "api_key.rotated")
    assert (replaced["before"]["overlap_until"], replaced["after"]["overlap_until"]) == (None, kept["overlap_until"])


async def test_without_overlap_the_old_key_ends_at_once(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    old = await _new_key(operator)
    await operator.post(f"{KEYS}/{old['id']}/rotate", json={"overlap_seconds": 0})
    assert (await _ask(gateway, old["value"])).status_code == 401


async def test_an_admin_key_rotates(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    old = (await operator.post(ADMIN_KEYS, json={"name": "ci", "scopes": ["usage.read"]})).json()
    new = (await operator.post(f"{ADMIN_KEYS}/{old['id']}/rotate", json={"overlap_seconds": 0})).json()
    assert (new["scopes"], new["kind"], new["rotated_from"]) == (["usage.read"], "tenant_admin", old["id"])
    async with client(gateway.url, new["value"]) as http:
        assert (await http.get("/v1/organization/usage/completions?start_time=0")).status_code == 200
        assert (await http.get("/v1/organization/projects")).status_code == 403


async def test_no_key_makes_one_that_may_do_more(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    writer = ["organization.read", "organization.write"]
    made = (await operator.post(ADMIN_KEYS, json={"name": "ci", "scopes": writer})).json()
    async with client(gateway.url, made["value"]) as http:
        more = await http.post(ADMIN_KEYS, json={"name": "x", "scopes": ["audit.read"]})
        assert (more.status_code, more.json()["error"]["code"]) == (403, "permission_denied")
        same = await http.post(ADMIN_KEYS, json={"name": "x"})
        assert same.json()["scopes"] == writer, "a restricted key passes on no more than it has"
        less = await http.post(ADMIN_KEYS, json={"name": "x", "scopes": ["organization.read"]})
        assert less.json()["scopes"] == ["organization.read"]
        assert (await http.post(ADMIN_KEYS, json={"name": "x", "scopes": ["inference"]})).status_code == 400
        assert (await http.post(f"{ADMIN_KEYS}/{same.json()['id']}/rotate", json={})).json()["scopes"] == writer


async def test_the_last_use_is_told(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    key = await _new_key(operator)
    assert (await operator.get(f"{KEYS}/{key['id']}")).json()["last_used_at"] is None
    await _ask(gateway, key["value"])
    async with asyncio.timeout(10):
        while (used := (await operator.get(f"{KEYS}/{key['id']}")).json()["last_used_at"]) is None:
            await asyncio.sleep(0.1)
    assert abs(used - time.time()) < 10


async def test_an_archived_project_makes_no_keys(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    project = (await operator.post("/v1/organization/projects", json={"name": "p"})).json()["id"]
    accounts = f"/v1/organization/projects/{project}/service_accounts"
    key = (await operator.post(accounts, json={"name": "one"})).json()["api_key"]
    await operator.post(f"/v1/organization/projects/{project}/archive")
    for path in (accounts, f"/v1/organization/projects/{project}/api_keys/{key['id']}/rotate"):
        refused = await operator.post(path, json={"name": "x"} if path == accounts else {})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    default = await operator.post("/v1/organization/projects/proj_default/archive")
    assert (default.status_code, default.json()["error"]["code"]) == (409, "conflict")

"""One request is told to whom it belongs: its entries, figures and cost; asked for, its answer says the same."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from storage.api_keys import ApiKeys
from storage.deployments import FIRST
from storage.money import Price
from storage.prices import Prices
from storage.tenants import Tenants
from storage.values import KeyKind
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.fleet_of_fakes import until
from tests.gateway.running import MODEL, Gateway, client, frames, running

pytestmark = pytest.mark.anyio
SCRIPT = Script(step=3, rejected=2)
MILLIONS = {"input": 10, "cached": 20, "output": 30, "rejected": 40}
"""Of micro-units a million tokens."""
TIMINGS = {"queue_ms": 1.0, "prefill_ms": 10.0, "decode_ms": 20.0, "draft_ms": 0.0, "verify_ms": 0.0}


async def told(gateway: Gateway, id: str, key: str = "", method: str = "GET", **body: Any) -> tuple[int, Any]:
    path = f"/v1/usage/requests/{id}" if method == "GET" else f"/admin/v1/requests/{id}/adjustments"
    async with client(gateway.url, key or gateway.key) as http:
        answer = await http.request(method, path, json=body or None)
    return answer.status_code, answer.json()


async def key_of(gateway: Gateway, tenant: str, kind: KeyKind) -> str:
    async with gateway.parts.db.unit() as session:
        await Tenants(session).ensure(tenant, tenant, "billed")
        return (await ApiKeys(session).create(tenant, kind, "a test")).key


async def priced(gateway: Gateway) -> None:
    async with gateway.parts.db.unit() as session:
        price = Price(**{name: value * 10**6 for name, value in MILLIONS.items()})
        assert await Prices(session).add(FIRST, price, "system", "a test", 0)
    await gateway.parts.fleet.sync()


async def test_what_a_request_used_and_cost(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        await priced(gateway)
        key = await key_of(gateway, "acme", "inference")
        async with client(gateway.url, key) as http:
            body = {"model": MODEL, "prompt": "x", "prediction": "Hello, world", "metadata": {"workload": "edit"}}
            id = (await http.post("/v1/completions", json=body)).headers["x-request-id"]
        status, one = await told(gateway, id, key)
        assert status == 200
        names = ("id", "organization_id", "api_key_id", "model", "route", "workload", "status", "outcome")
        assert [one[name] for name in names] == [
            *(id, "acme", key.split("-")[2], MODEL),
            *("/v1/completions", "edit", "settled", "completed"),
        ]
        assert [entry["kind"] for entry in one["entries"]] == ["open", "settle"]
        assert one["usage"]["completion_tokens"] == 4 + 2, "this tenant's rejected tokens are billed"
        assert {name: one["timings"][name] for name in TIMINGS} == TIMINGS
        assert (one["speculation"]["steps"], one["speculation"]["passes_saved"]) == (1, 2)
        assert (one["speculation"]["drafted_tokens"], one["speculation"]["acceptance_rate"]) == (4, 0.5)
        lines = [(line["item"], line["tokens"], line["micros"]) for line in one["cost"]["lines"]]
        assert lines == [("input", 4, 40), ("cached", 3, 60), ("output", 4, 120), ("rejected", 2, 80)]
        assert (one["cost"]["total_micros"], one["cost"]["price_version"], one["cost"]["currency"]) == (300, 1, "USD")


async def test_others_are_told_what_nobodys_request_is(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        id = (await gateway.chat()).headers["x-request-id"]
        nothing = await told(gateway, "nothing")
        assert nothing[0] == 404
        strangers = [("default", "inference"), ("acme", "inference"), ("acme", "tenant_admin")]
        for tenant, kind in strangers:
            assert await told(gateway, id, await key_of(gateway, tenant, kind)) == nothing  # type: ignore[arg-type]
        for key in (gateway.key, await key_of(gateway, "default", "tenant_admin"), gateway.operator_key):
            assert (await told(gateway, id, key))[0] == 200


async def test_a_running_request_is_told_as_far_as_it_came(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(hold_at=2)), checkpoint_tokens=1) as gateway:
        asking = asyncio.create_task(gateway.chat(stream=True))
        await until(lambda: gateway.engine.sent == 2)
        id = gateway.engine.requests[0].request_id
        async with asyncio.timeout(5):
            while len((one := (await told(gateway, id))[1])["entries"]) < 2:
                await asyncio.sleep(0.02)
        assert (one["status"], one["outcome"], one["settled_at"]) == ("running", None, None)
        assert one["entries"][-1]["kind"] == "checkpoint"
        assert one["cost"]["lines"] == [], "nothing is billed before the end"
        refused = await told(gateway, id, gateway.operator_key, "POST", micros=1, reason="too early")
        assert (refused[0], refused[1]["error"]["code"]) == (409, "conflict")
        gateway.engine.release.set()
        assert (await asking).status_code == 200


async def test_an_adjustment_is_an_entry_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        id = (await gateway.chat()).headers["x-request-id"]
        for micros in (-250, 100):
            status, made = await told(
                gateway, id, gateway.operator_key, "POST", micros=micros, reason="a fault of ours"
            )
            assert (status, made["micros"], made["organization_id"]) == (200, micros, "default")
        one = (await told(gateway, id))[1]
        assert [entry["kind"] for entry in one["entries"]] == ["open", "settle", "adjust", "adjust"]
        assert [each["micros"] for each in one["cost"]["adjustments"]] == [-250, 100]
        assert (one["cost"]["total_micros"], one["cost"]["lines"][0]["micros"]) == (-150, 0)
        assert (await told(gateway, "nothing", gateway.operator_key, "POST", micros=1, reason="x"))[0] == 404
        assert (await told(gateway, id, gateway.operator_key, "POST", micros=0.5, reason="x"))[0] == 400
        assert (await told(gateway, id, gateway.key, "POST", micros=1, reason="x"))[0] == 403
        async with client(gateway.url, gateway.operator_key) as http:
            log = (await http.get("/v1/organization/audit_logs", params={"resource_ids": id})).json()["data"]
        assert [event["after"]["micros"] for event in log] == [100, -250], "newest first"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_an_answer_says_where_its_time_went_where_that_is_asked(tmp_path: Path, path: str) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        asks: dict[str, Any] = {"model": MODEL, "prediction": "Hello", "return_timings": True}
        asks |= {"prompt": "x"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
        whole = await gateway.http.post(path, json=asks)
        one = (await told(gateway, whole.headers["x-request-id"]))[1]
        assert (whole.json()["timings"], whole.json()["speculation"]) == (one["timings"], one["speculation"])
        assert whole.headers["x-specgate-passes-saved"] == str(one["speculation"]["passes_saved"]) == "2"
        for options in ({}, {"stream_options": {"include_usage": True}}):
            *_, last, done = frames((await gateway.http.post(path, json=asks | {"stream": True} | options)).text)
            assert (done, last["choices"], last["timings"]) == ("[DONE]", [], one["timings"])
            assert ("usage" in last) == bool(options)
        plain = (await gateway.http.post(path, json={**asks, "return_timings": False})).json()
        assert not {"timings", "speculation"} & plain.keys()

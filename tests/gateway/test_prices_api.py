"""An operator sets prices while requests run: each keeps those of its admission, and the log says who set them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.home import HomeRefused
from gateway.secret import audit_key
from storage.audit import Audit
from storage.deployments import FIRST
from storage.paging import Cursor
from storage.values.audit import AuditEvent, AuditQuery
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.fleet_of_fakes import until
from tests.gateway.running import Gateway, client, running

pytestmark = pytest.mark.anyio
PRICES = f"/admin/v1/deployments/{FIRST}/prices"
CHEAP: dict[str, Any] = {"input": 100, "output": 200, "reason": "to begin with"}
DEAR: dict[str, Any] = {"input": 1000, "cached": 10, "output": 2000, "rejected": 20, "reason": "costs rose"}


async def call(gateway: Gateway, method: str, path: str = PRICES, match: str = "*", **body: Any) -> httpx.Response:
    async with client(gateway.url, gateway.operator_key) as http:
        given = {"json": body, "headers": {"if-match": match}} if body else {}
        return await http.request(method, path, **given)  # type: ignore[arg-type]


async def audited(gateway: Gateway) -> list[AuditEvent]:
    async with gateway.parts.db.view() as session:
        events, _ = await Audit(session, audit_key(gateway.parts.secret)).page(AuditQuery(), Cursor(20))
    return events


async def test_a_request_keeps_the_prices_of_its_admission(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(hold_at=2))) as gateway:
        assert (await call(gateway, "PUT", match='"0"', **CHEAP)).headers["etag"] == '"1"'
        first = asyncio.create_task(gateway.chat())
        await until(lambda: gateway.engine.requests)
        assert (await call(gateway, "PUT", match='"1"', **DEAR)).headers["etag"] == '"2"'
        gateway.engine.release.set()
        assert (await first).status_code == 200
        assert (await gateway.chat()).status_code == 200
        for kind in ("open", "settle"):
            assert [row.price_version for row in await gateway.rows(kind)] == [1, 2]


async def test_without_a_price_nothing_is_pinned(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        told = (await call(gateway, "GET")).json()
        assert (told["version"], told["input"], told["currency"], told["history"]) == (0, 0, "USD", [])
        assert (await gateway.chat()).status_code == 200
        assert (await gateway.settled()).price_version is None


async def test_every_version_is_told_and_audited(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), currency="EUR") as gateway:
        await call(gateway, "PUT", **CHEAP)
        told = (await call(gateway, "PUT", **DEAR)).json()
        same = await call(gateway, "PUT", **DEAR)
        assert same.json() == told, "what changes nothing is no version"
        assert {name: told[name] for name in ("input", "cached", "output", "rejected", "version", "currency")} == {
            "input": 1000,
            "cached": 10,
            "output": 2000,
            "rejected": 20,
            "version": 2,
            "currency": "EUR",
        }
        assert [(one["version"], one["cached"], one["rejected"]) for one in told["history"]] == [
            (2, 10, 20),
            (1, 100, 200),
        ]
        assert told["history"][0]["reason"] == "costs rose"
        assert told["history"][0]["author"] == gateway.operator_key.split("-")[2]
        events = [event for event in await audited(gateway) if event.action == "prices.updated"]
        assert [(event.before or {}).get("input") for event in events] == [100, None], "newest first"
        assert {(event.target, event.tenant_id) for event in events} == {(FIRST, None)}


@pytest.mark.parametrize(
    ("match", "body", "status", "code"),
    [
        ('"7"', CHEAP, 412, "version_mismatch"),
        ("*", {"input": 1, "output": 2}, 400, "missing_required_parameter"),
        ("*", CHEAP | {"input": -1}, 400, "invalid_value"),
        ("*", CHEAP | {"input": 0.5}, 400, "invalid_type"),
        ("*", CHEAP | {"price": 1}, 400, "unknown_parameter"),
    ],
)
async def test_what_is_refused(tmp_path: Path, match: str, body: dict[str, Any], status: int, code: str) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        refused = await call(gateway, "PUT", match=match, **body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        assert (await call(gateway, "GET")).json()["version"] == 0
        assert (await call(gateway, "GET", "/admin/v1/deployments/dep_no/prices")).status_code == 404


async def test_another_currency_than_that_of_the_prices_refuses_the_start(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), currency="EUR"):
        pass
    async with running(tmp_path, FakeEngine(), currency="CHF") as gateway:
        assert (await call(gateway, "PUT", **CHEAP)).json()["currency"] == "CHF"
    with pytest.raises(
        HomeRefused, match=r"SPECGATE_CURRENCY is EUR, but the prices .* are in CHF.*SPECGATE_CURRENCY=CHF"
    ):
        async with running(tmp_path, FakeEngine(), currency="EUR"):
            pass
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await call(gateway, "GET")).json()["currency"] == "CHF"

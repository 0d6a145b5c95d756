"""An erased tenant: nothing that named it or its people is left, its keys are dead, and its bill is what it was."""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.retention import Retention
from storage.deployments import FIRST
from storage.exports import Place, Turn
from storage.ledger import Ledger
from storage.models import EPOCH
from storage.money import Price
from storage.prices import Prices
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import MODEL, Gateway, client, running, settings_for

pytestmark = pytest.mark.anyio
ERASE = "/admin/v1/tenants/acme/erase"
NAMED = ("Acme Incorporated", "Rocket project", "Rocket backend")


async def make(http: httpx.AsyncClient) -> str:
    """A tenant with everything that has a name; its key."""
    acme = {"openai-organization": "acme"}
    await http.post("/admin/v1/tenants", json={"id": "acme", "name": NAMED[0]})
    project = (await http.post("/v1/organization/projects", json={"name": NAMED[1]}, headers=acme)).json()
    accounts = f"/v1/organization/projects/{project['id']}/service_accounts"
    made = await http.post(accounts, json={"name": NAMED[2]}, headers=acme)
    return str(made.json()["api_key"]["value"])


async def ask(gateway: Gateway, key: str) -> httpx.Response:
    async with client(gateway.url, key) as http:
        return await http.post("/v1/completions", json={"model": MODEL, "prompt": "x", "user": "ann"})


async def stated(http: httpx.AsyncClient) -> Any:
    params = {"month": datetime.now(UTC).strftime("%Y-%m")}
    answer = await http.get("/v1/organization/usage/statement", params=params, headers={"openai-organization": "acme"})
    return answer.json()


async def test_an_erased_tenant_is_gone_but_for_its_bill(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        async with gateway.parts.db.unit() as session:
            assert await Prices(session).add(FIRST, Price(10**6, 10**6, 10**6), "system", "a test", 0)
        await gateway.parts.fleet.sync()
        key = await make(http)
        assert (await ask(gateway, key)).status_code == 200
        bill = await stated(http)
        assert bill["total_micros"] == 7 + 4

        tombstone = (await http.post(ERASE)).json()
        assert (tombstone["status"], tombstone["name"], tombstone["id"]) == ("erased", "erased", "acme")
        assert (await http.post(ERASE)).json() == tombstone, "once is enough"
        assert await stated(http) == bill
        await asyncio.sleep(1.1)  # a key is remembered for a second
        assert (await ask(gateway, key)).status_code in (401, 403)
        for path in ("/admin/v1/tenants/acme/resume", "/admin/v1/tenants/default/erase"):
            assert (await http.post(path)).status_code == 409, path
        patch = await http.patch("/admin/v1/tenants/acme", json={"name": "Back"}, headers={"if-match": "*"})
        assert patch.status_code == 409

        report = (await http.get("/admin/v1/audit/verify")).json()
        assert (report["holds"], report["problems"]) == (True, [])
        log = (await http.get("/v1/organization/audit_logs", headers={"openai-organization": "acme"})).json()["data"]
        assert log[0]["type"] == "tenant.erased"
        async with gateway.parts.db.view() as session:
            assert await Ledger(session).verify() == []
    with closing(sqlite3.connect(tmp_path / "specgate.db")) as database:
        kept = "\n".join(database.iterdump())
    assert not [name for name in NAMED if name in kept]
    assert "ann" not in json.dumps([log, tombstone])
    hashes = {row.user_hash for row in await _entries(tmp_path)}
    assert hashes == {None}


async def _entries(home: Path) -> list[Any]:
    async with running(home, FakeEngine()) as gateway:
        return await gateway.rows("settle")


async def test_what_the_webhook_was_not_told_is_kept(tmp_path: Path) -> None:
    """The same rows are old enough, and rolled up, once they were told."""
    async with running(tmp_path, FakeEngine()) as gateway:
        db, now = gateway.parts.db, datetime.now(UTC)
        settings = settings_for(tmp_path, usage_days=32, export_url="http://127.0.0.1:9/x", export_secret="s" * 32)
        retention = Retention(db, settings, breath=0)
        limit = now - timedelta(days=32)
        assert await retention._exported(limit) == EPOCH
        async with db.unit() as session:
            assert await Turn(session, "webhook", "home:1").take(now, timedelta(seconds=60))
            assert await Turn(session, "webhook", "home:1").move(Place(now, "x"))
        assert await retention._exported(limit) == limit

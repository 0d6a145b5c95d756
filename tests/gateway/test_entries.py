"""Entries one by one, page by page: each once, to whom they belong, and only those that will not change."""

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.reports.csv import cell, flat
from gateway.reports.entries import COLUMNS
from storage.exports import MARGIN
from storage.tenants import Tenants
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, client, running
from tests.gateway.test_export import DUE, opened, write_settled

pytestmark = pytest.mark.anyio
PATH = "/v1/organization/usage/entries"


async def _pages(http: httpx.AsyncClient, limit: int, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        after = {"after": found[-1]["id"]} if found else {}
        page = (await http.get(PATH, params={"limit": limit, **after, **asked})).json()
        found += page["data"]
        assert page["last_id"] == (page["data"][-1]["id"] if page["data"] else None)
        if not page["has_more"]:
            return found


async def test_every_entry_comes_once_and_says_whose_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as db:
        ids = await write_settled(db, *range(1, 8))
        await write_settled(db, 8, at=datetime.now(UTC) - MARGIN + timedelta(seconds=60))
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        found = await _pages(operator, 3)
        assert [one["id"] for one in found] == ids
        first = found[0]
        at = DUE + timedelta(milliseconds=1)
        assert first | {"by_proposer": {}} == first | {
            "object": "usage.entry",
            "kind": "settle",
            "at": int(at.timestamp()),
            "at_iso": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "request_id": "r1",
            "organization_id": "default",
            "project_id": "proj_default",
            "api_key_id": "abcdefghijkl",
            "outcome": "completed",
            "completion_tokens": 20,
            "decode_us": 1_500_000,
            "passes_saved": 12,
            "config_versions": {"1": 7},
            "by_proposer": {},
        }
        assert list(first) == list(COLUMNS)
        assert not first.keys() & {"user_hash", "author", "owner", "timings"}


async def test_a_range_is_of_whole_seconds_and_its_end_is_exclusive(tmp_path: Path) -> None:
    whole = DUE.replace(microsecond=0)
    async with opened(tmp_path) as db:
        ids = await write_settled(db, *(1000 * n for n in range(1, 5)), at=whole)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        start = int(whole.timestamp())
        found = await _pages(operator, 9, start_time=start + 2, end_time=start + 4)
        assert [one["id"] for one in found] == ids[1:3]
        page = (await operator.get(PATH)).json()
        assert abs(page["finalised_through"] - (datetime.now(UTC) - MARGIN).timestamp()) < 5


async def test_the_csv_is_the_json(tmp_path: Path) -> None:
    async with opened(tmp_path) as db:
        ids = await write_settled(db, 1, 2, 3)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        page = (await operator.get(PATH, params={"limit": 2})).json()
        told = await operator.get(PATH, params={"limit": 2}, headers={"accept": "text/csv"})
        assert told.headers["content-type"] == "text/csv; charset=utf-8"
        assert (told.headers["x-has-more"], told.headers["x-last-id"]) == ("true", ids[1])
        rows = list(csv.DictReader(io.StringIO(told.text, newline="")))
        assert rows == [{name: cell(value) for name, value in flat(one).items()} for one in page["data"]]
        assert (await operator.get(PATH, params={"format": "json"}, headers={"accept": "text/csv"})).json()["data"]


async def _admin_of(gateway: Gateway, operator: httpx.AsyncClient, tenant: str) -> str:
    async with gateway.parts.db.unit() as session:
        await Tenants(session).ensure(tenant, tenant)
    headers = {"openai-organization": tenant}
    made = await operator.post("/v1/organization/admin_api_keys", json={"name": "a"}, headers=headers)
    return str(made.json()["value"])


async def test_a_tenant_sees_its_own_and_an_operator_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as db:
        ours = await write_settled(db, 1, 2)
        theirs = await write_settled(db, 3, 4, tenant="other")
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        key = await _admin_of(gateway, operator, "other")
        assert [one["id"] for one in await _pages(operator, 9)] == [*ours, *theirs]
        named = await operator.get(PATH, headers={"openai-organization": "other"})
        assert [one["id"] for one in named.json()["data"]] == theirs
        async with client(gateway.url, key) as admin:
            assert [one["id"] for one in await _pages(admin, 1)] == theirs
            for after in (ours[0], "nothing"):
                refused = await admin.get(PATH, params={"after": after})
                assert (refused.status_code, refused.json()["error"]["param"]) == (404, "after")
        assert (await gateway.http.get(PATH)).status_code == 403

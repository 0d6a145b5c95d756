"""Reports over a real socket: what the client asks is what it gets, as JSON and as CSV, and never another tenant's."""

import csv
import io
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import insert

from gateway.reports.csv import cell, flat
from storage import Database
from storage.models import ledger_entries
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, client, running
from tests.storage.test_exports import entry

pytestmark = pytest.mark.anyio
USAGE, SPECULATION, COSTS = (f"/v1/organization/{name}" for name in ("usage/completions", "usage/speculation", "costs"))
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
START = int((TODAY - timedelta(days=2)).timestamp())
LABELS = ("=cmd", "chat", None)


async def _write(db: Database, number: int, **changes: Any) -> None:
    at = TODAY - timedelta(days=2) + number * timedelta(minutes=61)
    settled = entry(number, at=at, tenant=f"t{number % 2}") | {
        "deployment_id": f"dep_{number % 2}",
        "config_version": 1 + number % 3,
        "workload": LABELS[number % 3],
        "cohort": ("treated", "treated", "control", None)[number % 4],
        **changes,
    }
    opened = {name: settled[name] for name in settled if name not in ("outcome",)} | {
        "kind": "open",
        "entry_id": f"open{number}",
        "seq": 0,
    }
    async with db.unit() as session:
        await session.execute(insert(ledger_entries), [opened])
        await session.execute(insert(ledger_entries), [settled])


async def _many(gateway: Gateway, count: int = 40) -> None:
    for number in range(1, count + 1):
        await _write(gateway.parts.db, number)


def _results(page: dict[str, Any]) -> list[dict[str, Any]]:
    return [result for bucket in page["data"] for result in bucket["results"]]


async def _page(http: httpx.AsyncClient, path: str, **asked: Any) -> dict[str, Any]:
    answer = await http.get(path, params={"start_time": START, **asked})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_report_is_told_by_every_dimension(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await _many(gateway)
        whole = _results(await _page(operator, SPECULATION))
        assert sum(one["num_model_requests"] for one in whole) == 40
        for group in ("deployment_id", "drafter_version", "workload", "cohort", "organization_id"):
            parts = _results(await _page(operator, SPECULATION, group_by=group))
            for figure in ("num_model_requests", "steps", "passes_saved", "drafted_tokens", "decode_tokens"):
                assert sum(one[figure] for one in parts) == sum(one[figure] for one in whole)
            assert len({one[group] for one in parts}) > 1
        one = whole[0]
        assert one["decode_tokens"] == one["steps"] + one["passes_saved"]
        assert one["outcomes"]["completed"] == one["num_model_requests"]
        assert 1_425_000 <= one["latency_us"]["decode"]["p95"] <= 1_575_000
        assert one["break_even"]["verdict"] == "not_enough_data"
        assert one["savings"]["saved_us"] is None
        only = await _page(operator, SPECULATION, deployment_ids="dep_1", drafter_versions="2", workloads="chat")
        assert sum(result["num_model_requests"] for result in _results(only)) == sum(
            n % 2 == 1 and n % 3 == 1 for n in range(1, 41)
        )


async def test_proposers_are_rows_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await _many(gateway, 8)
        asked = {"start_time": START, "group_by": ["deployment_id", "proposer"]}
        rows = _results((await operator.get(SPECULATION, params=asked)).json())
        assert {(one["deployment_id"], one["proposer"]) for one in rows} == {
            (f"dep_{n}", name) for n in (0, 1) for name in ("lookup", "prediction")
        }
        totals: Counter[str] = Counter()
        for one in rows:
            totals[one["proposer"]] += one["accepted"]
        assert totals == {"prediction": 8 * 11, "lookup": 8}


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        (USAGE, ["workload", "deployment_id"]),
        (SPECULATION, ["workload", "cohort"]),
        (SPECULATION, ["workload", "proposer"]),
        (COSTS, ["line_item", "organization_id"]),
    ],
)
async def test_the_csv_is_the_json(tmp_path: Path, path: str, groups: list[str]) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await _many(gateway, 12)
        asked = {"start_time": START, "group_by": groups, "limit": 2}
        page = (await operator.get(path, params=asked)).json()
        told = await operator.get(path, params=asked | {"format": "csv"})
        assert told.headers["content-type"] == "text/csv; charset=utf-8"
        assert told.headers.get("x-next-page") == page["next_page"]
        rows = list(csv.DictReader(io.StringIO(told.text, newline="")))
        times = ("start_time", "end_time", "start_time_iso", "end_time_iso")
        expected = [
            {name: cell(value) for name, value in flat({name: bucket[name] for name in times} | result).items()}
            for bucket in page["data"]
            for result in bucket["results"]
        ]
        assert expected
        assert rows == expected
        if "workload" in groups:
            assert {row["workload"] for row in rows} == {"'=cmd", "chat", ""}
        accepted = await operator.get(path, params=asked, headers={"accept": "text/csv"})
        assert accepted.text == told.text
        empty = await operator.get(path, params={"start_time": 0, "end_time": 86400, "format": "csv"})
        assert empty.text.count("\r\n") == 1


async def test_a_tenant_reads_its_own_reports(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await _many(gateway, 12)
        for tenant in ("t0", "t1"):
            made = await operator.post("/admin/v1/tenants", json={"name": tenant, "id": tenant})
            assert made.status_code == 200, made.text
        headers = {"openai-organization": "t1"}
        key = (await operator.post("/v1/organization/admin_api_keys", json={"name": "a"}, headers=headers)).json()
        async with client(gateway.url, key["value"]) as admin:
            for path in (USAGE, SPECULATION, COSTS):
                rows = _results(await _page(admin, path, group_by="organization_id"))
                assert {one["organization_id"] for one in rows} == {"t1"}
                named = await operator.get(
                    path, params={"start_time": START, "group_by": "organization_id"}, headers=headers
                )
                assert _results(named.json()) == rows


async def test_the_official_client_s_every_word_is_understood(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await gateway.chat()).status_code == 200
        keys = {"api_key": gateway.key, "admin_api_key": gateway.operator_key}
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", max_retries=0, **keys) as official:  # type: ignore[arg-type]
            usage = official.admin.organization.usage
            start = int(time.time()) - 60
            every = await usage.completions(
                start_time=start,
                end_time=start + 86_400,
                batch=False,
                group_by=["project_id", "user_id", "api_key_id", "model", "batch", "service_tier", "api_source"],
            )
            told = [result.model_dump() for bucket in every.data for result in bucket.results]
            assert sum(one["num_model_requests"] for one in told) == 1
            assert {(one["batch"], one["user_id"], one["api_source"]) for one in told} == {(False, None, "unlabeled")}
            for asked in ({"batch": True}, {"user_ids": ["user_1"]}):
                none = await usage.completions(start_time=start, **asked)  # type: ignore[arg-type]
                assert [bucket.results for bucket in none.data] == [[] for _ in none.data]
            groups = ["project_id", "user_id", "line_item", "api_key_id", "api_source"]
            costs = await usage.costs(start_time=start, group_by=groups, line_items=["x, y"])  # type: ignore[arg-type]
            assert [bucket.results for bucket in costs.data] == [[] for _ in costs.data]

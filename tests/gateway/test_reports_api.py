"""Reports over a real socket: what the client asks is what it gets, as JSON and as CSV, and never another tenant's."""

import csv
import io
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import insert

from gateway.reports.csv import cell, flat
from gateway.usage_query import LATEST
from storage.models import ledger_entries
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import client, running
from tests.gateway.test_export import opened
from tests.storage.test_exports import entry

pytestmark = pytest.mark.anyio
USAGE, SPECULATION, COSTS = (f"/v1/organization/{name}" for name in ("usage/completions", "usage/speculation", "costs"))
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
START = int((TODAY - timedelta(days=2)).timestamp())
LABELS = ("=cmd", "chat", None)


UNDRAFTED: dict[str, Any] = {
    "steps": 19,
    **dict.fromkeys(("accepted_delivered", "drafted_tokens", "accepted_tokens"), 0),
    **dict.fromkeys(("accepted_prediction_tokens", "rejected_prediction_tokens"), 0),
    "by_proposer": {},
}
"""What a control has in place of its drafts."""


def _rows(number: int, **changes: Any) -> list[dict[str, Any]]:
    """One request, opened and settled."""
    at = TODAY - timedelta(days=2) + number * timedelta(minutes=61)
    cohort = ("treated", "treated", "control", None)[number % 4]
    settled = entry(number, at=at, tenant=f"t{number % 2}") | {
        "deployment_id": f"dep_{number % 2}",
        "config_version": 1 + number % 3,
        "workload": LABELS[number % 3],
        "cohort": cohort,
        "holdout_ppm": 20_000 if cohort else None,
        **changes,
    }
    if settled["cohort"] == "control":
        settled |= UNDRAFTED
    told = {name: value for name, value in settled.items() if name != "outcome"}
    return [told | {"kind": "open", "entry_id": f"open{number}", "seq": 0}, settled]


async def _seed(home: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Before the gateway starts: what is settled later is never in an hour that is past."""
    async with opened(home) as db, db.unit() as session:
        for row in rows:
            await session.execute(insert(ledger_entries), [row])


async def _many(home: Path, count: int = 40) -> None:
    await _seed(home, (row for number in range(1, count + 1) for row in _rows(number)))


def _results(page: dict[str, Any]) -> list[dict[str, Any]]:
    return [result for bucket in page["data"] for result in bucket["results"]]


async def _page(http: httpx.AsyncClient, path: str, **asked: Any) -> dict[str, Any]:
    answer = await http.get(path, params={"start_time": START, **asked})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_report_is_told_by_every_dimension(tmp_path: Path) -> None:
    await _many(tmp_path)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
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
    await _many(tmp_path, 8)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        asked = {"start_time": START, "group_by": ["deployment_id", "proposer"]}
        rows = _results((await operator.get(SPECULATION, params=asked)).json())
        assert {(one["deployment_id"], one["proposer"]) for one in rows} == {
            (f"dep_{n}", name) for n in (0, 1) for name in ("lookup", "prediction")
        }
        totals: Counter[str] = Counter()
        for one in rows:
            totals[one["proposer"]] += one["accepted"]
        assert totals == {"prediction": 6 * 11, "lookup": 6}


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
    await _many(tmp_path, 12)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
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
    await _many(tmp_path, 12)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
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


async def test_a_deployment_that_is_faster_with_drafts_pays_and_a_tenant_is_told_so(tmp_path: Path) -> None:
    """Controls take 20 ms a token; with drafts one deployment takes 10, the other 30."""
    rows = []
    for number in range(1, 321):
        deployment, cohort = ("fast", "slow")[number % 2], ("control" if number % 4 < 2 else "treated")
        micros = 20_000 if cohort == "control" else {"fast": 10_000, "slow": 30_000}[deployment]
        at = TODAY - timedelta(days=1) + number * timedelta(seconds=1)
        told = {"deployment_id": deployment, "config_version": 1, "cohort": cohort, "holdout_ppm": 500_000}
        times = {"decode_us": 19 * micros + number, "verify_us": 19 * micros + number, "batch_milli": 1000}
        rows += _rows(number, at=at, sampled=False, workload=None, **told, **times)
    await _seed(tmp_path, rows)
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        asked = {"start_time": START, "group_by": "deployment_id", "limit": 31, "bucket_width": "1d"}
        found = {one["deployment_id"]: one for one in _results((await operator.get(SPECULATION, params=asked)).json())}
        assert {name: one["break_even"]["verdict"] for name, one in found.items()} == {
            "fast": "pays",
            "slow": "does_not_pay",
        }
        fast, slow = found["fast"], found["slow"]
        assert fast["break_even"]["us_per_token"] == pytest.approx(10_000, rel=0.01)
        assert fast["break_even"]["baseline_us_per_token"] == pytest.approx(20_000, rel=0.01)
        assert fast["break_even"]["ratio"] == pytest.approx(0.5, rel=0.01)
        assert fast["savings"]["method"] == slow["savings"]["method"] == "holdout"
        assert fast["savings"]["ci95_low_us"] > 0 > slow["savings"]["ci95_high_us"]
        assert fast["savings"]["saved_us"] == pytest.approx(80 * 19 * 10_000, rel=0.01)
        assert slow["savings"]["saved_us"] == pytest.approx(-80 * 19 * 10_000, rel=0.01)
        assert fast["savings"]["num_controls"] == fast["break_even"]["num_controls"] == 80


@pytest.mark.parametrize("width", ["1m", "1h", "1d"])
async def test_the_end_of_time_is_asked_for_and_told(tmp_path: Path, width: str) -> None:
    """Regression: the last hour was rounded up to a date that there is not."""
    asked = {"start_time": LATEST - 2, "end_time": LATEST - 1, "bucket_width": width}
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        for path in (USAGE, SPECULATION):
            answer = await http.get(path, params=asked)
            assert (answer.status_code, answer.json()["data"][0]["results"]) == (200, []), answer.text
        late = await http.get(USAGE, params=asked | {"end_time": LATEST})
        assert (late.status_code, late.json()["error"]["param"]) == (400, "end_time")

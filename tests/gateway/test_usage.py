"""The usage report over a real socket: to operators only, and as the official client reads it."""

import time
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import openai
import pytest
from openai.types.admin.organization import UsageCompletionsResponse
from openai.types.admin.organization.usage_completions_response import DataResultOrganizationUsageCompletionsResult

from storage.ledger import Ledger
from storage.values import Settlement
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import MODEL, Gateway, client, running
from tests.storage.entries import ENDED, open_requests

pytestmark = pytest.mark.anyio
PATH = "/v1/organization/usage/completions"
SCRIPT = Script(step=3, rejected=2)
"""Four tokens: one from prefill, then one step with two accepted."""


async def _used(gateway: Gateway) -> int:
    """Two requests, one with two choices; returns a start time before them."""
    start = int(time.time()) - 60
    for choices in (1, 2):
        answer = await gateway.chat(n=choices, prediction={"type": "content", "content": "Hello, world!"})
        assert answer.status_code == 200
    return start


def _official(gateway: Gateway, ask: Callable[[openai.OpenAI], UsageCompletionsResponse]) -> UsageCompletionsResponse:
    keys = {"api_key": gateway.key, "admin_api_key": gateway.operator_key}
    with openai.OpenAI(base_url=f"{gateway.url}/v1", max_retries=0, **keys) as official:  # type: ignore[arg-type]
        return ask(official)


async def test_the_official_client_reads_every_figure(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        start = await _used(gateway)
        report = await anyio.to_thread.run_sync(
            _official,
            gateway,
            lambda c: c.admin.organization.usage.completions(
                start_time=start,
                bucket_width="1d",
                group_by=["model", "project_id", "api_key_id"],
                models=[MODEL],
                project_ids=["proj_default"],
                limit=2,
            ),
        )
        results = [result for bucket in report.data for result in bucket.results]
        assert (report.object, report.has_more, report.data[0].object) == ("page", False, "bucket")
        assert all(isinstance(result, DataResultOrganizationUsageCompletionsResult) for result in results)
        found = [result.model_dump() for result in results]
        assert {(r["model"], r["project_id"], r["api_key_id"]) for r in found} == {
            (MODEL, "proj_default", gateway.key.split("-")[2])
        }
        names = ("num_model_requests", "input_tokens", "input_cached_tokens", "output_tokens")
        assert [sum(r[name] for r in found) for name in names] == [2, 14, 6, 12]
        speculation = [r["speculation"] for r in found]
        assert sum(s["steps"] for s in speculation) == 3
        assert sum(s["passes_saved"] for s in speculation) == 6
        assert all(s["decode_tokens"] == s["steps"] + s["passes_saved"] for s in speculation)
        assert {s["mean_accepted_length"] for s in speculation} == {3.0}
        assert sum(s["by_proposer"]["prediction"]["rejected"] for s in speculation) == 6


async def test_the_asynchronous_client_pages_through_minutes(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        start = await _used(gateway)
        keys = {"api_key": gateway.key, "admin_api_key": gateway.operator_key}
        page, requests, buckets = None, 0, 0
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", **keys) as official:  # type: ignore[arg-type]
            for _ in range(10):
                report = await official.admin.organization.usage.completions(
                    start_time=start, bucket_width="1m", limit=1, **({"page": page} if page else {})
                )
                buckets += len(report.data)
                requests += sum(result.num_model_requests for bucket in report.data for result in bucket.results)  # type: ignore[union-attr]
                page = report.next_page
                if not report.has_more:
                    break
        assert requests == 2
        assert buckets in (2, 3)


async def test_only_an_operator_reads_the_report(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        denied = await gateway.http.get(PATH, params={"start_time": 0})
        assert (denied.status_code, denied.json()["error"]["code"]) == (403, "permission_denied")
        async with client(gateway.url, "sk-sg-unknown") as stranger:
            assert (await stranger.get(PATH, params={"start_time": 0})).status_code == 401
        async with client(gateway.url, gateway.operator_key) as operator:
            assert (await operator.get(PATH, params={"start_time": 0})).status_code == 200
            wrong = await operator.get(PATH, params={"start_time": 0, "group_by": "tenant_id"})
            assert wrong.status_code == 400
            assert wrong.json()["error"] == {
                "message": "Invalid group_by: use project_id, api_key_id, model, organization_id, deployment_id, "
                "drafter_version, workload, cohort, user_id, batch, service_tier, api_source.",
                "type": "invalid_request_error",
                "param": "group_by",
                "code": "invalid_value",
            }


async def test_reading_a_report_bills_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        for _ in range(3):
            await operator.get(PATH, params={"start_time": 0})
        assert await gateway.rows("open") == []


async def test_the_identity_holds_in_the_report_when_a_process_died(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await open_requests(gateway.parts.db, "whole", "cut", owner="dead")
        async with gateway.parts.db.unit() as session:
            ledger = Ledger(session)
            await ledger.settle(Settlement("whole", "completed", ENDED))
            await ledger.checkpoint("cut", 64, 60)
            assert await ledger.reconcile(["dead"]) == 1
        start = int(time.time()) - 3600
        report = (await operator.get(PATH, params={"start_time": start, "bucket_width": "1d"})).json()
        results = [result for bucket in report["data"] for result in bucket["results"]]
        assert sum(r["output_tokens"] for r in results) == 80
        assert sum(r["speculation"]["num_measured_requests"] for r in results) == 1
        for figures in (r["speculation"] for r in results):
            assert figures["decode_tokens"] == figures["steps"] + figures["passes_saved"]

"""GET /metrics: who may, what it says of requests, engines, ledger and stores, in both formats."""

from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.metrics.state import COUNTERS, GAUGES
from inference.protocol import WorkerLoad
from inference.server.metrics import exposition
from storage import StorageAway
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.fleet_of_fakes import Fakes, operated
from tests.gateway.running import MODEL, Gateway, client, running, serving

pytestmark = pytest.mark.anyio
TOKEN = "scrape-me-" + "x" * 16
DRAFTS = Script(words=("a", "b", "c", "d", "e"), step=3, rejected=2)
OF_TENANT = (("deployment", MODEL), ("tenant", "default"))
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(gateway: Gateway, accept: str = "text/plain") -> httpx.Response:
    async with client(gateway.url, TOKEN) as http:
        return await http.get("/metrics", headers={"accept": accept})


def samples(text: str) -> Samples:
    """(name, labels) → value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


async def test_what_was_counted_is_what_the_ledger_holds(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(DRAFTS), metrics_token=TOKEN) as gateway:
        await gateway.chat(n=2)
        await gateway.chat(stream=True, speculation="off")
        gateway.engine.script = Script(fail_at=1)
        await gateway.chat()
        rows = await gateway.rows("settle")
        found = samples((await scrape(gateway)).text)

    def total(name: str, **labels: str) -> float:
        return sum(v for (n, ls), v in found.items() if n == name and labels.items() <= dict(ls).items())

    assert len(rows) == 3
    for outcome in ("completed", "error", "engine_lost"):
        assert total("specgate_requests_total", outcome=outcome) == sum(row.outcome == outcome for row in rows)
    for kind in ("prompt", "cached", "visible", "completion"):
        assert total("specgate_tokens_total", type=kind) == sum(getattr(row, f"{kind}_tokens") for row in rows)
    assert total("specgate_steps_total") == sum(row.steps for row in rows) > 0
    assert total("specgate_passes_saved_total") == sum(row.accepted_delivered for row in rows) > 0
    assert total("specgate_drafted_tokens_total") == sum(row.drafted_tokens for row in rows) > 0
    assert total("specgate_accepted_tokens_total", proposer="prediction") == sum(row.accepted_tokens for row in rows)
    assert total("specgate_rejected_tokens_total", drafter="lookup") == 4
    assert total("specgate_steps_total", drafter="off") == 2
    assert total("gen_ai_server_request_duration_seconds_count", gen_ai_operation_name="chat") == 3
    assert total("http_server_request_duration_seconds_count", http_route="/v1/chat/completions") == 3


async def test_what_is_refused_is_counted_by_status_alone(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), metrics_token=TOKEN) as gateway:
        await gateway.chat(model="nobody")
        await gateway.http.get("/v9/nothing")
        found = samples((await scrape(gateway)).text)
    route, status = "/v1/chat/completions", ("http_response_status_code", "404")
    for where, method in ((route, "POST"), ("unmatched", "GET")):
        labels = (("http_request_method", method), status, ("http_route", where))
        assert found["http_server_request_duration_seconds_count", tuple(sorted(labels))] == 1
    assert not [name for name, _ in found if name == "specgate_requests_total"]


async def test_who_may(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), metrics_token=TOKEN) as gateway:
        keys = {gateway.key: (403, 200), gateway.operator_key: (200, 200), TOKEN: (200, 401), TOKEN + "x": (401, 401)}
        for key, expected in keys.items():
            async with client(gateway.url, key) as http:
                told = [(await http.get(path)).status_code for path in ("/metrics", "/v1/models")]
            assert tuple(told) == expected


async def test_without_a_token_none_will_do_and_a_public_bind_has_no_metrics(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await scrape(gateway)).status_code == 401
        async with httpx.AsyncClient(base_url=gateway.url) as stranger:
            assert (await stranger.get("/metrics")).status_code == 401
    async with running(tmp_path / "public", FakeEngine(), host="0.0.0.0", metrics_token=TOKEN) as gateway:
        assert (await scrape(gateway)).status_code == 404


async def test_it_speaks_openmetrics_to_who_asks(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(DRAFTS), metrics_token=TOKEN) as gateway:
        await gateway.chat()
        plain = await scrape(gateway)
        open_metrics = await scrape(gateway, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in parse_openmetrics(open_metrics.text)}
    assert {"specgate_requests", "gen_ai_client_token_usage", "specgate_database_up"} <= names
    assert "_created" not in plain.text + open_metrics.text


class Laden(FakeEngine):
    """Tells of the same load at every look."""

    async def load(self) -> WorkerLoad:
        told = {"config_version": self.config.version, "config_origin": self.config.origin}
        return WorkerLoad(
            waiting=2, running=3, free_blocks=4, num_blocks=9, passes=70, preemptions=1,
            drafter_faults={"lookup": 2}, resting_drafters=("lookup",), **told,
        )  # fmt: skip


async def test_engines_are_told_in_their_own_words(tmp_path: Path) -> None:
    engine = Laden()
    async with running(tmp_path, engine, metrics_token=TOKEN) as gateway:
        found = samples((await scrape(gateway)).text)
    load = await engine.load()
    labels = (("deployment", MODEL), ("replica", "0"))
    for name, read in (GAUGES | COUNTERS).items():
        assert found[f"specgate_engine_{name}", labels] == read(load)
    assert found["specgate_engine_drafter_faults_total", (*labels[:1], ("proposer", "lookup"), labels[1])] == 2
    assert found["specgate_engine_drafter_resting", (*labels[:1], ("proposer", "lookup"), labels[1])] == 1
    theirs = {family.name for family in parse_text(exposition(load, 0))} - {"specgate_engine_open_requests"}
    ours = {name.removesuffix("_total") for name, _ in found if name.startswith("specgate_engine_")}
    assert ours == theirs


async def test_deployments_and_what_drafts_for_them(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes(), metrics_token=TOKEN) as (gateway, _):
        found = samples((await scrape(gateway)).text)
        gateway.parts.fleet.servings.clear()
        assert "specgate_deployment_up{" not in (await scrape(gateway)).text
    info = {"deployment": MODEL, "drafter": "lookup", "drafter_version": "1", "phase": "ready"}
    assert found["specgate_deployment_up", (("deployment", MODEL),)] == 1
    assert found["specgate_deployment_info", tuple(sorted(info.items()))] == 1


async def test_open_requests_and_limits(tmp_path: Path) -> None:
    engine = FakeEngine(Script(hold_at=1))
    async with running(tmp_path, engine, metrics_token=TOKEN) as gateway:
        async with gateway.http.stream("POST", "/v1/chat/completions", json=_streamed()) as answer:
            told = answer.aiter_raw()
            await anext(told)
            found = samples((await scrape(gateway)).text)
            engine.release.set()
            async for _ in told:
                pass
        after = samples((await scrape(gateway)).text)
    assert found["specgate_ledger_unsettled_requests", ()] == 1
    assert after["specgate_ledger_unsettled_requests", ()] == 0
    assert (found["specgate_database_up", ()], found["specgate_limiter_degraded", ()]) == (1, 0)


async def test_the_token_needs_no_database_and_a_draining_gateway_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: object) -> object:
        raise StorageAway("gone")

    async with running(tmp_path, FakeEngine(), metrics_token=TOKEN) as gateway, serving(gateway.parts):
        gateway.parts.drain.has_begun = True
        with monkeypatch.context() as patched:
            patched.setattr(type(gateway.parts.db), "view", away)
            found = samples((await scrape(gateway)).text)
        gateway.parts.drain.has_begun = False
    assert found["specgate_database_up", ()] == 0
    assert "specgate_ledger_unsettled_requests" not in {name for name, _ in found}


def _streamed() -> dict[str, object]:
    return {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "x"}]}

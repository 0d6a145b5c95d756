"""What a settled request adds to which series, and that their number has a bound."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from gateway.completion import Job
from gateway.metrics.increments import increments
from gateway.metrics.names import COUNTERS, HISTOGRAMS
from gateway.metrics.of_request import settled_of
from gateway.metrics.registry import Metrics
from gateway.metrics.settled import Account, Settled
from inference.protocol import GenerationRequest, SpeculationRequest
from storage.values import Figures, OpenEntry, ProposerFigures

FIGURES = Figures(
    prompt_tokens=100,
    cached_tokens=40,
    visible_tokens=50,
    completion_tokens=53,
    steps=19,
    accepted_delivered=30,
    by_proposer={"prediction": ProposerFigures(5, 40, 28), "lookup": ProposerFigures(2, 6, 2)},
    timings={"queue": 0.25, "prefill": 0.5, "decode": 4.9, "draft": 0.4, "verify": 4.0, "coordination": 0.5},
)
ACCOUNT = Account("acme", "small", "lookup", "3")
SETTLED = Settled(ACCOUNT, "alias", "chat", "completed", FIGURES, 5.75)
OF_BOTH = ("acme", "small", "lookup", "3")
GEN_AI = ("chat", "specgate", "alias", "small")


def told(settled: Settled) -> dict[str, dict[tuple[str, ...], float]]:
    """Metric → labels → amount."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for (name, labels), amount in increments(settled):
        assert labels not in found.setdefault(name, {})
        found[name][labels] = amount
    return found


def test_every_figure_of_a_completed_request() -> None:
    assert told(SETTLED) == {
        "specgate_requests_total": {("acme", "small", "completed"): 1},
        "specgate_tokens_total": {
            ("acme", "small", "prompt"): 100,
            ("acme", "small", "cached"): 40,
            ("acme", "small", "visible"): 50,
            ("acme", "small", "completion"): 53,
        },
        "specgate_steps_total": {OF_BOTH: 19},
        "specgate_passes_saved_total": {OF_BOTH: 30},
        "specgate_drafts_total": {(*OF_BOTH, "prediction"): 5, (*OF_BOTH, "lookup"): 2},
        "specgate_drafted_tokens_total": {(*OF_BOTH, "prediction"): 40, (*OF_BOTH, "lookup"): 6},
        "specgate_accepted_tokens_total": {(*OF_BOTH, "prediction"): 28, (*OF_BOTH, "lookup"): 2},
        "specgate_rejected_tokens_total": {(*OF_BOTH, "prediction"): 12, (*OF_BOTH, "lookup"): 4},
        "specgate_phase_seconds_total": {
            ("small", "lookup", "3", "queue"): 0.25,
            ("small", "lookup", "3", "prefill"): 0.5,
            ("small", "lookup", "3", "draft"): 0.4,
            ("small", "lookup", "3", "verify"): 4.0,
            ("small", "lookup", "3", "coordination"): 0.5,
        },
        "gen_ai_server_request_duration_seconds": {(*GEN_AI, ""): 5.75},
        "gen_ai_client_token_usage": {(*GEN_AI, "input"): 100, (*GEN_AI, "output"): 53},
        "gen_ai_server_time_to_first_token_seconds": {GEN_AI: 0.75},
        "gen_ai_server_time_per_output_token_seconds": {GEN_AI: pytest.approx(0.1)},
    }


def test_one_that_failed_has_no_times_to_tokens_and_one_that_was_refused_no_tokens() -> None:
    failed = told(replace(SETTLED, outcome="engine_lost"))
    assert failed["gen_ai_server_request_duration_seconds"] == {(*GEN_AI, "engine_lost"): 5.75}
    assert not failed.keys() & {"gen_ai_server_time_to_first_token_seconds"}
    assert failed["specgate_drafted_tokens_total"][(*OF_BOTH, "prediction")] == 40
    refused = told(replace(SETTLED, outcome="refused", figures=Figures(), seconds=0.1))
    assert refused == {
        "specgate_requests_total": {("acme", "small", "refused"): 1},
        "gen_ai_server_request_duration_seconds": {(*GEN_AI, "refused"): 0.1},
    }


def test_labels_are_as_many_as_were_declared_and_name_nobody() -> None:
    declared = {name: metric.labels for name, metric in (COUNTERS | HISTOGRAMS).items()}
    for name, series in told(SETTLED).items():
        assert all(len(labels) == len(declared[name]) for labels in series), name
    words = {label for labels in declared.values() for label in labels}
    assert not [word for word in words if "key" in word or "user" in word or "request_id" in word]


@pytest.mark.parametrize(
    ("mode", "route", "expected"),
    [
        ("auto", "/v1/chat/completions", ("lookup", "chat")),
        ("off", "/v1/completions", ("off", "text_completion")),
    ],
)
def test_a_request_is_counted_under_what_drafted_for_it(mode: Any, route: str, expected: tuple[str, str]) -> None:
    run = GenerationRequest(request_id="r", prompt="x", speculation=SpeculationRequest(mode=mode))
    entry = OpenEntry("r", "acme", "k", "alias", route, "o", config_version=3)
    job = Job((run,), None, entry, drafter="lookup")  # type: ignore[arg-type] - it is not asked
    found = settled_of(job, "small", "completed", FIGURES, 1.0)
    assert (found.account.drafter, found.operation) == expected
    assert (found.account.tenant, found.account.drafter_version, found.model) == ("acme", "3", "alias")


def samples(metrics: Metrics, name: str) -> dict[str, float]:
    """Tenant → value."""
    found: list[Metric] = [one for one in metrics.source.collect() if one.name == name]
    return {one.labels["tenant"]: one.value for one in found[0].samples if one.name.endswith("_total")}


def test_tenants_beyond_a_bound_are_counted_together() -> None:
    metrics = Metrics(most_accounts=2)
    for tenant in ("a", "b", "c", "d", "a"):
        metrics.settled(replace(SETTLED, account=replace(ACCOUNT, tenant=tenant)))
    assert samples(metrics, "specgate_requests") == {"a": 2, "b": 1, "other": 2}
    assert samples(metrics, "specgate_steps") == {"a": 38, "b": 19, "other": 38}


def test_methods_that_nobody_knows_are_one() -> None:
    metrics = Metrics()
    for method in ("GET", "BREW", "SPILL"):
        metrics.answered(method, "unmatched", 404, 0.1)
    (http,) = [one for one in metrics.source.collect() if one.name == "http_server_request_duration_seconds"]
    counts = {one.labels["http_request_method"]: one.value for one in http.samples if one.name.endswith("_count")}
    assert counts == {"GET": 1, "_OTHER": 2}


def test_two_gateways_of_one_process_count_apart() -> None:
    first, second = Metrics(), Metrics()
    first.settled(SETTLED)
    assert samples(second, "specgate_requests") == {}
    assert isinstance(first.source, CollectorRegistry)

"""A result of each report: OpenAI's members, and what speculation did."""

from dataclasses import replace

from gateway.reports import completions, speculation
from gateway.reports.pages import Report
from gateway.usage_query import parse_query
from gateway.usage_report import NOTHING
from tests.gateway.reporting import DAY, NOW, ROW, START, ask

LOOKUP = {
    "drafts": 4,
    "drafted": 20,
    "accepted": 10,
    "rejected": 10,
    "acceptance_rate": 0.5,
    "mean_accepted_length": 2.5,
    "accepted_by_position": [4, 3, 2, 1],
    "acceptance_by_position": [1.0, 0.75, 0.5, 0.25],
}
PREDICTION = {
    "drafts": 5,
    "drafted": 30,
    "accepted": 30,
    "rejected": 0,
    "acceptance_rate": 1.0,
    "mean_accepted_length": 6.0,
    "accepted_by_position": [5, 5, 5, 5, 5, 5],
    "acceptance_by_position": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
}
WORK = {
    "decode_tokens": 60,
    "steps": 20,
    "passes_saved": 40,
    "idle_passes": 3,
    "mean_accepted_length": 3.0,
    "drafted_tokens": 50,
    "accepted_tokens": 40,
    "rejected_tokens": 10,
    "acceptance_rate": 0.8,
    "mean_request_acceptance_rate": 0.75,
}
GROUP = {
    "project_id": None,
    "api_key_id": None,
    "model": "tiny",
    "organization_id": None,
    "deployment_id": None,
    "drafter_version": None,
    "workload": None,
    "cohort": None,
}


def test_every_bucket_of_the_page_is_told_with_its_times() -> None:
    query = parse_query(ask(group_by="model", limit=2), NOW)
    page = Report(query, [[], [{"x": 1}]], ROW.bucket, {"x": 0}).page()
    assert page == {
        "object": "page",
        "data": [
            {
                "object": "bucket",
                "start_time": START,
                "end_time": START + DAY,
                "start_time_iso": "2026-03-01T00:00:00Z",
                "end_time_iso": "2026-03-02T00:00:00Z",
                "results": [],
            },
            {
                "object": "bucket",
                "start_time": START + DAY,
                "end_time": START + 2 * DAY,
                "start_time_iso": "2026-03-02T00:00:00Z",
                "end_time_iso": "2026-03-03T00:00:00Z",
                "results": [{"x": 1}],
            },
        ],
        "has_more": True,
        "next_page": f"page_{START + 2 * DAY}",
        "finalised_through": START + DAY,
    }


def test_a_result_of_completions() -> None:
    assert completions.result(ROW, parse_query(ask(group_by="model"), NOW)) == {
        "object": "organization.usage.completions.result",
        "input_tokens": 300,
        "input_cached_tokens": 128,
        "input_uncached_tokens": 172,
        "input_cache_write_tokens": 0,
        "output_tokens": 66,
        "num_model_requests": 3,
        **GROUP,
        "user_id": None,
        "batch": None,
        "service_tier": None,
        "api_source": None,
        "speculation": {
            "visible_output_tokens": 62,
            "generated_tokens": 62,
            "delivered_tokens": 60,
            "prediction_tokens": 80,
            "accepted_prediction_tokens": 30,
            "rejected_prediction_tokens": 4,
            "num_measured_requests": 2,
            **WORK,
            "by_proposer": {"lookup": LOOKUP, "prediction": PREDICTION},
        },
    }


def test_what_all_requests_have_in_common_is_told_where_it_was_asked_for() -> None:
    asked = [*ask(group_by="batch"), ("group_by", "service_tier"), ("group_by", "api_source"), ("group_by", "user_id")]
    result = completions.result(ROW, parse_query(asked, NOW))
    assert (result["batch"], result["service_tier"], result["api_source"]) == (False, "default", "unlabeled")
    assert result["user_id"] is None


def test_a_result_of_speculation() -> None:
    result = speculation.result(ROW, {"verdict": "pays"}, {"method": "holdout"})
    spread = {"p50": result["latency_us"]["queue"]["p50"], "p95": result["latency_us"]["queue"]["p95"]}
    assert 950 <= spread["p50"] <= 1050
    assert 85_500 <= spread["p95"] <= 94_500
    assert result == {
        "object": "organization.usage.speculation.result",
        **GROUP,
        "num_model_requests": 3,
        "num_measured_requests": 2,
        "outcomes": {
            "completed": 2,
            "disconnected": 0,
            "error": 0,
            "engine_lost": 1,
            "interrupted": 0,
            "refused": 0,
        },
        "input_tokens": 300,
        "input_cached_tokens": 128,
        "output_tokens": 66,
        "visible_output_tokens": 62,
        "generated_tokens": 62,
        "delivered_tokens": 60,
        "prediction_tokens": 80,
        "accepted_prediction_tokens": 30,
        "rejected_prediction_tokens": 4,
        **WORK,
        "accepted_by_position": [9, 8, 7, 6, 5, 5],
        "by_proposer": {"lookup": LOOKUP, "prediction": PREDICTION},
        "time_us": {
            "queue": 500,
            "prefill": 2000,
            "decode": 6000,
            "draft": 1000,
            "verify": 4500,
            "coordination": 500,
            "share": 5000,
        },
        "latency_us": dict.fromkeys(("queue", "prefill", "decode", "token"), spread),
        "break_even": {"verdict": "pays"},
        "savings": {"method": "holdout"},
    }


def test_a_result_of_one_proposer_tells_its_drafts_alone() -> None:
    result = speculation.proposer_result(ROW, "lookup", ROW.by_proposer["lookup"])
    assert result == {
        "object": "organization.usage.speculation.proposer_result",
        **GROUP,
        "proposer": "lookup",
        **LOOKUP,
    }


def test_no_rate_is_made_of_nothing() -> None:
    result = speculation.result(replace(NOTHING, requests=1), {}, {})
    assert [result[name] for name in ("mean_accepted_length", "acceptance_rate", "mean_request_acceptance_rate")] == [
        None,
        None,
        None,
    ]
    assert result["latency_us"]["decode"] == {"p50": None, "p95": None}

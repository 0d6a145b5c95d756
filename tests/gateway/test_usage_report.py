"""A usage report is answered in OpenAI's shape, with what speculation did."""

from datetime import UTC, datetime

from gateway.usage_query import parse_query
from gateway.usage_report import page
from storage.usage import ProposerTotals, UsageRow

DAY = 86_400
START = 1_772_323_200
"""2026-03-01 00:00 UTC."""
NOW = START + 10 * DAY + 5000


def _ask(**parameters: object) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in {"start_time": START, **parameters}.items()]


SUMS = {
    "prompt_tokens": 300,
    "cached_tokens": 128,
    "generated_tokens": 62,
    "delivered_tokens": 60,
    "visible_tokens": 62,
    "completion_tokens": 66,
    "prediction_tokens": 80,
    "accepted_prediction_tokens": 30,
    "rejected_prediction_tokens": 4,
    "steps": 20,
    "idle_passes": 3,
    "accepted_delivered": 40,
    "drafted_tokens": 50,
    "accepted_tokens": 40,
}


def test_a_result_says_what_was_used_and_what_speculation_did() -> None:
    row = UsageRow(
        bucket=datetime(2026, 3, 2, tzinfo=UTC),
        group={"model": "tiny"},
        requests=3,
        measured_requests=2,
        decode_tokens=60,
        sums=SUMS,
        drafting_requests=2,
        acceptance_ppm=1_500_000,
        by_proposer={"lookup": ProposerTotals(4, 20, 10), "prediction": ProposerTotals(5, 30, 30)},
    )
    answer = page(parse_query(_ask(group_by="model", limit=2), NOW), [row])
    assert [bucket["results"] == [] for bucket in answer["data"]] == [True, False]
    assert (answer["object"], answer["has_more"], answer["next_page"]) == ("page", True, f"page_{START + 2 * DAY}")
    bucket = answer["data"][1]
    assert {name: bucket[name] for name in bucket if name != "results"} == {
        "object": "bucket",
        "start_time": START + DAY,
        "end_time": START + 2 * DAY,
        "start_time_iso": "2026-03-02T00:00:00Z",
        "end_time_iso": "2026-03-03T00:00:00Z",
    }
    assert bucket["results"] == [
        {
            "object": "organization.usage.completions.result",
            "input_tokens": 300,
            "input_cached_tokens": 128,
            "input_uncached_tokens": 172,
            "output_tokens": 66,
            "num_model_requests": 3,
            "project_id": None,
            "api_key_id": None,
            "model": "tiny",
            "organization_id": None,
            "user_id": None,
            "batch": None,
            "service_tier": None,
            "speculation": {
                "visible_output_tokens": 62,
                "generated_tokens": 62,
                "delivered_tokens": 60,
                "prediction_tokens": 80,
                "accepted_prediction_tokens": 30,
                "rejected_prediction_tokens": 4,
                "num_measured_requests": 2,
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
                "by_proposer": {
                    "lookup": {"drafts": 4, "drafted": 20, "accepted": 10, "rejected": 10, "acceptance_rate": 0.5},
                    "prediction": {"drafts": 5, "drafted": 30, "accepted": 30, "rejected": 0, "acceptance_rate": 1.0},
                },
            },
        }
    ]


def test_no_rate_is_made_of_nothing() -> None:
    row = UsageRow(datetime(2026, 3, 1, tzinfo=UTC), {}, 1, 0, 0, dict.fromkeys(SUMS, 0))
    speculation = page(parse_query(_ask(), NOW), [row])["data"][0]["results"][0]["speculation"]
    rates = ("mean_accepted_length", "acceptance_rate", "mean_request_acceptance_rate")
    assert [speculation[name] for name in rates] == [None, None, None]

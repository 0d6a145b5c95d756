"""The usage report: rows of the ledger in OpenAI's page of buckets. Pure.

Beside OpenAI's members every result has `speculation`.
"""

from collections.abc import Sequence
from typing import Any

from gateway.usage_query import GROUPS, ReportQuery, utc
from storage.usage import ProposerTotals, UsageRow


def page(query: ReportQuery, rows: Sequence[UsageRow]) -> dict[str, Any]:
    """The answer: every bucket of the page, also those without a request."""
    return {
        "object": "page",
        "data": [_bucket(query, start, end, rows) for start, end in query.buckets],
        "has_more": query.next_page is not None,
        "next_page": query.next_page,
    }


def _bucket(query: ReportQuery, start: int, end: int, rows: Sequence[UsageRow]) -> dict[str, Any]:
    of_bucket = utc(start - start % query.width)
    return {
        "object": "bucket",
        "start_time": start,
        "end_time": end,
        "start_time_iso": _iso(start),
        "end_time_iso": _iso(end),
        "results": [result(row) for row in rows if row.bucket == of_bucket],
    }


def result(row: UsageRow) -> dict[str, Any]:
    """One group of one bucket."""
    sums = row.sums
    return {
        "object": "organization.usage.completions.result",
        "input_tokens": sums["prompt_tokens"],
        "input_cached_tokens": sums["cached_tokens"],
        "input_uncached_tokens": sums["prompt_tokens"] - sums["cached_tokens"],
        "output_tokens": sums["completion_tokens"],
        "num_model_requests": row.requests,
        **{name: row.group.get(column) for name, column in GROUPS.items()},
        "user_id": None,
        "batch": None,
        "service_tier": None,
        "speculation": _speculation(row),
    }


def _speculation(row: UsageRow) -> dict[str, Any]:
    sums = row.sums
    return {
        "visible_output_tokens": sums["visible_tokens"],
        "generated_tokens": sums["generated_tokens"],
        "delivered_tokens": sums["delivered_tokens"],
        "prediction_tokens": sums["prediction_tokens"],
        "accepted_prediction_tokens": sums["accepted_prediction_tokens"],
        "rejected_prediction_tokens": sums["rejected_prediction_tokens"],
        "num_measured_requests": row.measured_requests,
        "decode_tokens": row.decode_tokens,
        "steps": sums["steps"],
        "passes_saved": sums["accepted_delivered"],
        "idle_passes": sums["idle_passes"],
        "mean_accepted_length": _ratio(row.decode_tokens, sums["steps"]),
        "drafted_tokens": sums["drafted_tokens"],
        "accepted_tokens": sums["accepted_tokens"],
        "rejected_tokens": sums["drafted_tokens"] - sums["accepted_tokens"],
        "acceptance_rate": _ratio(sums["accepted_tokens"], sums["drafted_tokens"]),
        "mean_request_acceptance_rate": row.mean_request_acceptance,
        "by_proposer": {name: _proposer(totals) for name, totals in row.by_proposer.items()},
    }


def _proposer(totals: ProposerTotals) -> dict[str, Any]:
    return {
        "drafts": totals.drafts,
        "drafted": totals.drafted,
        "accepted": totals.accepted,
        "rejected": totals.rejected,
        "acceptance_rate": _ratio(totals.accepted, totals.drafted),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _iso(seconds: int) -> str:
    return utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")

"""OpenAI's usage of completions; ours stands under `speculation` and beside it. Pure."""

from gateway.reports.figures import Object, group_object, proposer_object, ratio
from gateway.usage_query import ReportQuery
from storage.usage import UsageRow


def result(row: UsageRow, query: ReportQuery) -> Object:
    """One group of one bucket."""
    sums = row.sums
    return {
        "object": "organization.usage.completions.result",
        "input_tokens": sums["prompt_tokens"],
        "input_cached_tokens": sums["cached_tokens"],
        "input_uncached_tokens": sums["prompt_tokens"] - sums["cached_tokens"],
        "input_cache_write_tokens": 0,
        "output_tokens": sums["completion_tokens"],
        "num_model_requests": row.requests,
        **group_object(row.group),
        "user_id": None,
        "batch": False if "batch" in query.group_by else None,
        "service_tier": "default" if "service_tier" in query.group_by else None,
        "api_source": "unlabeled" if "api_source" in query.group_by else None,
        "speculation": _speculation(row),
    }


def _speculation(row: UsageRow) -> Object:
    sums = row.sums
    return {
        "visible_output_tokens": sums["visible_tokens"],
        "generated_tokens": sums["generated_tokens"],
        "delivered_tokens": sums["delivered_tokens"],
        "prediction_tokens": sums["prediction_tokens"],
        "accepted_prediction_tokens": sums["accepted_prediction_tokens"],
        "rejected_prediction_tokens": sums["rejected_prediction_tokens"],
        "num_measured_requests": row.measured_requests,
        **work_object(row),
        "by_proposer": {name: proposer_object(totals) for name, totals in row.by_proposer.items()},
    }


def work_object(row: UsageRow) -> Object:
    """Of measured requests: tokens decoded, passes made and saved, drafts kept."""
    sums = row.sums
    return {
        "decode_tokens": row.decode_tokens,
        "steps": sums["steps"],
        "passes_saved": sums["accepted_delivered"],
        "idle_passes": sums["idle_passes"],
        "mean_accepted_length": ratio(row.decode_tokens, sums["steps"]),
        "drafted_tokens": sums["drafted_tokens"],
        "accepted_tokens": sums["accepted_tokens"],
        "rejected_tokens": sums["drafted_tokens"] - sums["accepted_tokens"],
        "acceptance_rate": ratio(sums["accepted_tokens"], sums["drafted_tokens"]),
        "mean_request_acceptance_rate": row.mean_request_acceptance,
    }

"""What speculation did in a group: tokens, drafts by proposer, passes, times, and whether it pays. Pure."""

from gateway.reports.completions import work_object
from gateway.reports.figures import Object, group_object, proposer_object
from storage.usage import LATENCIES, OUTCOMES, TIMINGS, Latency, UsageRow
from storage.values import ProposerFigures


def result(row: UsageRow, break_even: Object, savings: Object) -> Object:
    """One group of one bucket. Times are microseconds."""
    sums = row.sums
    return {
        "object": "organization.usage.speculation.result",
        **group_object(row.group),
        "num_model_requests": row.requests,
        "num_measured_requests": row.measured_requests,
        "outcomes": {name: row.outcomes[name] for name in OUTCOMES},
        "input_tokens": sums["prompt_tokens"],
        "input_cached_tokens": sums["cached_tokens"],
        "output_tokens": sums["completion_tokens"],
        "visible_output_tokens": sums["visible_tokens"],
        "generated_tokens": sums["generated_tokens"],
        "delivered_tokens": sums["delivered_tokens"],
        "prediction_tokens": sums["prediction_tokens"],
        "accepted_prediction_tokens": sums["accepted_prediction_tokens"],
        "rejected_prediction_tokens": sums["rejected_prediction_tokens"],
        **work_object(row),
        "accepted_by_position": list(sum(row.by_proposer.values(), ProposerFigures()).accepted_by_position),
        "by_proposer": {name: proposer_object(totals) for name, totals in row.by_proposer.items()},
        "time_us": {name: row.timings[name] for name in TIMINGS},
        "latency_us": {name: _spread(row, name) for name in LATENCIES},
        "break_even": break_even,
        "savings": savings,
    }


def proposer_result(row: UsageRow, proposer: str, totals: ProposerFigures) -> Object:
    """One proposer of one group: its drafts alone. What a request used is the request's, and would count twice."""
    return {
        "object": "organization.usage.speculation.proposer_result",
        **group_object(row.group),
        "proposer": proposer,
        **proposer_object(totals),
    }


def _spread(row: UsageRow, name: Latency) -> Object:
    spread = row.latencies[name]
    return {"p50": spread.percentile(50), "p95": spread.percentile(95)}

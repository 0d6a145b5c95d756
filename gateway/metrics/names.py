"""Every metric that counts requests, once: name, help, labels, buckets.

Ours begin with `specgate_` (an engine's own with `specgate_engine_`, see `inference/server/metrics.py`). The rest are
OpenTelemetry's in their Prometheus spelling (dots become underscores, a unit in braces is dropped, seconds are named):
`gen_ai.*` with the attributes and buckets of https://github.com/open-telemetry/semantic-conventions-genai
(docs/gen-ai/gen-ai-metrics.md, status Development), `http.server.request.duration` with those of
https://opentelemetry.io/docs/specs/semconv/http/http-metrics.
"""

from dataclasses import dataclass

PROVIDER = "specgate"
OF_TENANT = ("tenant", "deployment")
OF_DRAFTER = ("deployment", "drafter", "drafter_version")
OF_BOTH = ("tenant", *OF_DRAFTER)
"""`drafter`: the kind at the request's admission; `off` where it ran without any."""
OF_PROPOSER = (*OF_BOTH, "proposer")
GEN_AI = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model")
HTTP = ("http_request_method", "http_route", "http_response_status_code")


@dataclass(frozen=True, slots=True)
class Metric:
    about: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Empty: a counter."""


COUNTERS = {
    "specgate_requests_total": Metric("Settled requests by how they ended.", (*OF_TENANT, "outcome")),
    "specgate_tokens_total": Metric(
        "Tokens of settled requests: prompt, the cached part of it, visible, completion (as billed).",
        (*OF_TENANT, "type"),
    ),
    "specgate_steps_total": Metric("Passes that delivered a token after the first.", OF_BOTH),
    "specgate_passes_saved_total": Metric("Drafted tokens kept and delivered, by any proposer.", OF_BOTH),
    "specgate_drafts_total": Metric("Drafts verified.", OF_PROPOSER),
    "specgate_drafted_tokens_total": Metric("Draft tokens verified.", OF_PROPOSER),
    "specgate_accepted_tokens_total": Metric("Draft tokens kept and delivered: passes saved.", OF_PROPOSER),
    "specgate_rejected_tokens_total": Metric("Draft tokens verified in vain.", OF_PROPOSER),
    "specgate_phase_seconds_total": Metric(
        "Where requests spent their time; decode is draft, verify and coordination together.", (*OF_DRAFTER, "phase")
    ),
}
HISTOGRAMS = {
    "gen_ai_server_request_duration_seconds": Metric(
        "From a request's admission to its last byte.",
        (*GEN_AI, "error_type"),
        (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
    "gen_ai_server_time_to_first_token_seconds": Metric(
        "Waiting and prefill, of completed requests.",
        GEN_AI,
        (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    ),
    "gen_ai_server_time_per_output_token_seconds": Metric(
        "Decode time by token after the first, of completed requests.",
        GEN_AI,
        (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    ),
    "gen_ai_client_token_usage": Metric(
        "Tokens of a request, as billed.", (*GEN_AI, "gen_ai_token_type"), tuple(float(4**n) for n in range(14))
    ),
    "http_server_request_duration_seconds": Metric(
        "Every HTTP request, refused ones too; 499: the client left.",
        HTTP,
        (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    ),
}

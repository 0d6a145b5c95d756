"""What a settled request adds to which metric. Pure: the figures are those that the ledger took."""

from collections.abc import Iterator

from gateway.metrics.names import PROVIDER
from gateway.metrics.settled import Account, Settled
from storage.values import Figures

KINDS = ("prompt", "cached", "visible", "completion")
PHASES = ("queue", "prefill", "draft", "verify", "coordination")
Increment = tuple[tuple[str, tuple[str, ...]], float]
"""(metric and values of its labels), amount: a counter grows by it, a histogram observes it."""


def increments(settled: Settled) -> Iterator[Increment]:
    """A counter that would grow by nothing is left out."""
    account, figures = settled.account, settled.figures
    of_tenant = (account.tenant, account.deployment)
    yield ("specgate_requests_total", (*of_tenant, settled.outcome)), 1
    for kind in KINDS:
        if tokens := getattr(figures, f"{kind}_tokens"):
            yield ("specgate_tokens_total", (*of_tenant, kind)), tokens
    yield from _speculation(account, figures)
    yield from _gen_ai(settled)


def _speculation(account: Account, figures: Figures) -> Iterator[Increment]:
    of_drafter = (account.deployment, account.drafter, account.drafter_version)
    of_both = (account.tenant, *of_drafter)
    for phase in PHASES:
        if seconds := figures.timings.get(phase):
            yield ("specgate_phase_seconds_total", (*of_drafter, phase)), seconds
    if figures.steps:
        yield ("specgate_steps_total", of_both), figures.steps
    if figures.accepted_delivered:
        yield ("specgate_passes_saved_total", of_both), figures.accepted_delivered
    for proposer, stats in figures.by_proposer.items():
        of_proposer = (*of_both, proposer)
        yield ("specgate_drafts_total", of_proposer), stats.drafts
        yield ("specgate_drafted_tokens_total", of_proposer), stats.drafted
        yield ("specgate_accepted_tokens_total", of_proposer), stats.accepted
        yield ("specgate_rejected_tokens_total", of_proposer), stats.rejected


def _gen_ai(settled: Settled) -> Iterator[Increment]:
    figures, outcome = settled.figures, settled.outcome
    labels = (settled.operation, PROVIDER, settled.model, settled.account.deployment)
    error = "" if outcome == "completed" else outcome
    yield ("gen_ai_server_request_duration_seconds", (*labels, error)), settled.seconds
    if figures.prompt_tokens:
        yield ("gen_ai_client_token_usage", (*labels, "input")), figures.prompt_tokens
        yield ("gen_ai_client_token_usage", (*labels, "output")), figures.completion_tokens
    if outcome != "completed":
        return
    timings, decoded = figures.timings, figures.steps + figures.accepted_delivered
    first = timings.get("queue", 0.0) + timings.get("prefill", 0.0)
    yield ("gen_ai_server_time_to_first_token_seconds", labels), first
    if decoded:
        yield ("gen_ai_server_time_per_output_token_seconds", labels), timings.get("decode", 0.0) / decoded

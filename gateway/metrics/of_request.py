"""From a request that ended to what is counted."""

from gateway.completion import Job
from gateway.metrics.settled import OTHER, Account, Settled
from storage.values import Figures, Outcome

OFF = "off"
CHAT = "/v1/chat/completions"


def settled_of(job: Job, deployment: str, outcome: Outcome, figures: Figures, seconds: float) -> Settled:
    entry = job.entry
    drafter = OFF if job.runs[0].speculation.mode == "off" else job.drafter
    return Settled(
        account=Account(entry.tenant_id, deployment, drafter, str(entry.config_version or OTHER)),
        model=entry.model,
        operation="chat" if entry.route == CHAT else "text_completion",
        outcome=outcome,
        figures=figures,
        seconds=seconds,
    )

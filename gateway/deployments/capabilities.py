"""What a deployment can do, and which drafter belongs to its family of models. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.deployments.speculation import KINDS, LATER_KINDS, NOT_BUILT, Speculation
from inference.protocol import WorkerReady

OWN_DRAFTER: Mapping[str, str] = {
    "deepseek_v3": "mtp",
    "glm4_moe": "mtp",
    "mimo": "mtp",
    "qwen3_next": "mtp",
}
"""Family → the drafter that its checkpoints bring along."""
OWN_TEXT: Mapping[tuple[str, str], list[str]] = {
    ("lookup", "request"): ["lookup in the request's own text"],
    ("suffix", "request"): ["suffixes of the request's own text"],
    ("suffix", "tenant"): ["suffixes of the request's own text and its tenant's latest answers"],
}


def capabilities(facts: WorkerReady | None) -> dict[str, Any]:
    """`facts` None: no engine has loaded it yet."""
    return {
        "context_length": facts.max_model_len if facts else None,
        "vocabulary_size": facts.vocab_size if facts else None,
        "fingerprint": facts.fingerprint if facts else None,
        "revision": facts.revision if facts else None,
        "family": facts.family if facts else None,
        "streaming": True,
        "prediction": True,
        "tools": False,
        "logprobs": False,
        "structured_output": False,
        "drafters": drafters(facts.drafters if facts else KINDS),
        "default_drafter": default_drafter(facts.family if facts else None),
    }


def drafters(runs: Sequence[str]) -> list[dict[str, Any]]:
    """Every kind there is, and why not where one cannot be had."""
    known = [_kind(kind, None if kind in (*runs, "none") else "its engine cannot run it") for kind in KINDS]
    return known + [_kind(kind, NOT_BUILT) for kind in LATER_KINDS]


def default_drafter(family: str | None) -> dict[str, Any]:
    """What a deployment starts with; every family can run lookup, which needs no weights."""
    own = OWN_DRAFTER.get(family or "")
    if family is None:
        why = "Its family is known once it is loaded; until then it runs with lookup."
    elif own is None:
        why = f"No trained drafter belongs to the family '{family}': it runs with lookup only."
    else:
        why = f"The family '{family}' brings its own drafter, {own}, which {NOT_BUILT}: it runs with lookup only."
    return {"kind": "lookup", "why": why}


def told_of(speculation: Speculation) -> str:
    """In one sentence, what drafts now."""
    if not speculation.enabled:
        return "Nothing drafts: speculation is off."
    sources = ["the client's prediction"] if speculation.prediction.enabled else []
    sources += OWN_TEXT.get((speculation.drafter.kind, speculation.drafter.scope), [])
    return f"Drafts come from {' and '.join(sources)}." if sources else "Nothing drafts: every source is off."


def _kind(kind: str, why_not: str | None) -> dict[str, Any]:
    return {"kind": kind, "available": why_not is None, "why": why_not}

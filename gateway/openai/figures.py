"""What a request's figures say of time and speculation, as answers tell it: ours, beside OpenAI's `usage`. Pure."""

from typing import Any

from storage.values import Figures, OpenEntry

Object = dict[str, Any]
TIMED = ("queue", "prefill", "decode", "draft", "verify", "coordination")


def timings_object(figures: Figures) -> Object:
    """Milliseconds. decode = draft + verify + coordination; waiting and prefill are the longest of the choices'."""
    return {f"{name}_ms": round(figures.timings.get(name, 0.0) * 1000, 3) for name in TIMED}


def speculation_object(entry: OpenEntry, figures: Figures) -> Object:
    proposers = figures.by_proposer.items()
    drafted = sum(stats.drafted for _, stats in proposers)
    accepted = sum(stats.accepted for _, stats in proposers)
    return {
        "asked": entry.speculation,
        "cohort": entry.cohort,
        "drafter_version": entry.config_version,
        "steps": figures.steps,
        "passes_saved": figures.accepted_delivered,
        "drafted_tokens": drafted,
        "accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if drafted else None,
        "by_proposer": {
            name: {
                "drafts": stats.drafts,
                "drafted_tokens": stats.drafted,
                "accepted_tokens": stats.accepted,
                "accepted_by_position": list(stats.accepted_by_position),
            }
            for name, stats in proposers
        },
    }

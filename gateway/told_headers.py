"""Response headers of ours on answers that ran: those known when headers go out."""

from storage.values import Figures, OpenEntry

COHORT = "x-specgate-cohort"


def at_start(entry: OpenEntry) -> dict[str, str]:
    """`treated` or `control`, where the request took part in the holdout's draw."""
    return {COHORT: entry.cohort} if entry.cohort else {}


def at_end(entry: OpenEntry, figures: Figures) -> dict[str, str]:
    """The same and, of an answer that is told in one piece, what it used."""
    used = {
        "x-specgate-steps": figures.steps,
        "x-specgate-passes-saved": figures.accepted_delivered,
        "x-specgate-drafted-tokens": sum(stats.drafted for stats in figures.by_proposer.values()),
    }
    return at_start(entry) | {name: str(value) for name, value in used.items()}

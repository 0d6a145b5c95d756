"""The overview's charts, from its figures. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

from gateway.dashboard import words
from gateway.dashboard.charts.columns import MOST_LABELS, Column, Columns, Part, stacked
from gateway.dashboard.charts.lines import Line, Lines, over_positions
from gateway.dashboard.charts.spans import Bar, Span, spans
from gateway.dashboard.figures import Series
from gateway.dashboard.filters import Width
from gateway.reports.figures import Object

LOOKS = {
    "prediction": "s1",
    "lookup": "s2",
    "suffix": "s3",
    "draft_model": "s4",
    "eagle": "s5",
    "eagle3": "s5",
    "mtp": "s6",
}
MOST_POSITIONS = 24
"""Later ones are rare, and in the table's download."""
LATENCIES = {"queue": "Queue", "prefill": "Prefill", "decode": "Decode"}


def look(proposer: str) -> str:
    """Its class in the style sheet."""
    return LOOKS.get(proposer, "s6")


def proposers(series: Series) -> list[str]:
    """Those that drafted, in the order of their looks."""
    found = {name for _, did in series for name in did}
    return sorted(found, key=lambda name: (look(name), name))


def over_time(series: Series, width: Width, zone: tzinfo) -> Columns:
    """Accepted below rejected, proposer upon proposer."""
    names = proposers(series)
    step = next(step for step in (1, 2, 3, 6, 12, 24) if len(series) <= step * MOST_LABELS or step == 24)
    whole = words.day if width == "day" else words.hour

    def label(start: int) -> str:
        hour = datetime.fromtimestamp(start, zone).hour
        return words.day(start, zone) if width == "day" or not hour else "" if hour % step else words.clock(start, zone)

    return stacked([Column(label(start), _parts(found, names, whole(start, zone))) for start, found in series])


def _parts(by_proposer: Mapping[str, Object], names: Sequence[str], when: str) -> list[Part]:
    parts = []
    for name in names:
        if totals := by_proposer.get(name):
            for which, kind in (("accepted", "kept"), ("rejected", "lost")):
                told = f"{when}: {name}, {words.count(totals[which])} {which}"
                parts.append(Part(f"{kind} {look(name)}", totals[which], told))
    return parts


def positions(total: Object) -> Lines:
    """The share of drafts whose token at a position was kept."""
    found = total["by_proposer"]
    names = sorted(found, key=lambda name: (look(name), name))
    return over_positions(
        [Line(look(name), name, found[name]["acceptance_by_position"][:MOST_POSITIONS]) for name in names]
    )


def latencies(total: Object) -> list[Bar]:
    """Seconds, p50 and p95; nothing where nothing was measured."""
    found = {name: total["latency_us"][key] for key, name in LATENCIES.items()}
    return spans(
        [Span(name, one["p50"] / 1e6, one["p95"] / 1e6) for name, one in found.items() if one["p95"] is not None]
    )

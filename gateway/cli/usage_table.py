"""A usage report as a table that can be read in a terminal of 80 columns; wider ones are told more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from gateway.cli.console import visible
from gateway.reports.figures import iso

NARROW, MIDDLE, WIDE = 0, 110, 150
"""From so many columns on more is told."""
SHORT = 12
"""Ids in a narrow terminal: their ends differ, their beginnings are times."""
MILLION = 1_000_000
GROUPS = {
    "tenant": "organization_id",
    "project": "project_id",
    "key": "api_key_id",
    "deployment": "deployment_id",
    "drafter": "drafter_version",
}
"""Groups as they are typed and headed: short for what the API calls them; every other name is the API's."""
PAYS = {"pays": "yes", "does_not_pay": "no", "not_enough_data": "?"}
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    heading: str
    tell: Callable[[Result], str]
    least: int = NARROW
    """The narrowest terminal that is told it."""


def member(heading: str, name: str, least: int = NARROW) -> Column:
    return Column(heading, lambda result: number(result[name]), least)


RESULT = (
    member("requests", "num_model_requests"),
    member("input", "input_tokens"),
    member("cached", "input_cached_tokens", MIDDLE),
    member("output", "output_tokens"),
    member("drafted", "drafted_tokens", WIDE),
    Column("accepted", lambda result: share(result["acceptance_rate"])),
    member("passes\nsaved", "passes_saved"),
    Column("tokens\na pass", lambda result: number(result["mean_accepted_length"]), MIDDLE),
    Column("ms a token\np50/p95", lambda result: spread(result["latency_us"]["token"]), WIDE),
    Column("time\nsaved", lambda result: saved(result["savings"])),
    Column("pays", lambda result: PAYS[result["break_even"]["verdict"]]),
)
PROPOSER = (
    Column("proposer", lambda result: str(result["proposer"])),
    member("drafts", "drafts"),
    member("drafted", "drafted"),
    member("accepted", "accepted"),
    member("rejected", "rejected", MIDDLE),
    Column("share", lambda result: share(result["acceptance_rate"])),
    Column("kept\na draft", lambda result: number(result["mean_accepted_length"])),
    Column("first 4 kept", lambda result: " ".join(map(share, result["acceptance_by_position"][:4])), MIDDLE),
)


def table(report: dict[str, Any], groups: list[str], width: int) -> Table:
    """A row for each group of each day that had a request. Where its groups have no room they are folded, not cut."""
    named = [name for name in groups if name != "proposer"]
    columns = [one for one in (PROPOSER if "proposer" in groups else RESULT) if width >= one.least]
    shown = Table(box=None, pad_edge=False, collapse_padding=width < MIDDLE, caption=_caption(report))
    headings = {name: heading for heading, name in GROUPS.items()}
    shown.add_column("day", no_wrap=True)
    for name in named:
        shown.add_column(headings.get(name, name), overflow="fold")
    for one in columns:
        shown.add_column(one.heading, justify="right", no_wrap=True)
    for bucket in report["data"]:
        day = bucket["start_time_iso"][0 if width >= MIDDLE else 5 : 10]
        for result in bucket["results"]:
            ids = (_id(result[name], width) for name in named)
            shown.add_row(day, *ids, *(one.tell(result) for one in columns))
    return shown


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if value < MILLION else f"{value / MILLION:,.1f}M"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def spread(latency: dict[str, int | None]) -> str:
    return "/".join("-" if micros is None else f"{micros / 1000:.1f}" for micros in (latency["p50"], latency["p95"]))


def saved(savings: Result) -> str:
    """With the half of its interval where it was measured, with a tilde where it is a guess."""
    if savings["saved_us"] is None:
        return "?"
    seconds = f"{savings['saved_us'] / MILLION:,.1f}"
    if savings["method"] != "holdout":
        return f"~{seconds}s"
    half = (savings["ci95_high_us"] - savings["ci95_low_us"]) / (2 * MILLION)
    return f"{seconds}±{half:,.1f}s"


def _id(value: object, width: int) -> str:
    told = "-" if value is None else visible(str(value))
    return told if width >= WIDE or len(told) <= SHORT else f"…{told[1 - SHORT :]}"


def _caption(report: dict[str, Any]) -> str:
    """What the marks mean, and up to when the figures are final."""
    final = report["finalised_through"]
    missing = [
        result["break_even"]["missing_requests"]
        for bucket in report["data"]
        for result in bucket["results"]
        if "break_even" in result and result["break_even"]["missing_requests"]
    ]
    told = ["UTC days."]
    if missing:
        told.append(f"?: not enough controls; about {max(missing):,} more requests give an answer.")
    if final is not None:
        told.append(f"Final up to {iso(final)}.")
    return " ".join(told)

"""How ledger values become rows and come back."""

from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from storage.values import Figures, OpenEntry, ProposerFigures, Settlement, billed_completion

TIMED = {
    "queue": "queue_us",
    "prefill": "prefill_us",
    "decode": "decode_us",
    "draft": "draft_us",
    "verify": "verify_us",
    "coordination": "coordination_us",
    "pass_share": "share_us",
}
"""Timings that have a column of microseconds."""
COPIED = tuple(field.name for field in fields(OpenEntry) if field.name != "at")
"""What every later entry of a request repeats, so that a report reads settled rows alone."""
FIGURES = tuple(field.name for field in fields(Figures))


def open_values(entry: OpenEntry, at: datetime) -> dict[str, Any]:
    """No figures: each column's default is that nothing was used."""
    return copied_from(entry) | {"at": at}


def checkpoint_values(figures: Figures, generated: int, delivered: int, at: datetime) -> dict[str, Any]:
    return _figures(replace(figures, generated_tokens=generated, delivered_tokens=delivered)) | {"at": at}


def settle_values(settlement: Settlement, at: datetime) -> dict[str, Any]:
    return _figures(settlement.figures) | {"outcome": settlement.outcome, "at": at}


def copied_from(entry: OpenEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COPIED}


def copied(opened: Row[Any]) -> dict[str, Any]:
    return {name: opened._mapping[name] for name in COPIED}


def interrupted(opened: Row[Any], last: Row[Any] | None) -> Settlement:
    """The settlement of a request whose gateway died: billed is what was surely delivered."""
    figures = figures_in(last) if last is not None else Figures()
    visible = figures.delivered_tokens
    accepted = min(figures.accepted_prediction_tokens, visible)
    rejected = figures.rejected_prediction_tokens
    billed = billed_completion(opened.rejected_prediction, visible, accepted, rejected)
    final = replace(
        figures,
        visible_tokens=visible,
        completion_tokens=billed,
        accepted_prediction_tokens=accepted,
        final=False,
    )
    return Settlement(opened.request_id, "interrupted", final)


def open_entry_from(row: Row[Any]) -> OpenEntry:
    return OpenEntry(**copied(row), at=row.at)


def _figures(figures: Figures) -> dict[str, Any]:
    by_proposer = figures.by_proposer
    return {name: getattr(figures, name) for name in FIGURES} | {
        "by_proposer": {name: asdict(stats) for name, stats in by_proposer.items()},
        "timings": dict(figures.timings),
        "config_versions": {str(version): steps for version, steps in figures.config_versions.items()},
        "drafted_tokens": sum(stats.drafted for stats in by_proposer.values()),
        "accepted_tokens": sum(stats.accepted for stats in by_proposer.values()),
        **{column: round(figures.timings.get(name, 0.0) * 1_000_000) for name, column in TIMED.items()},
    }


def figures_in(row: Row[Any]) -> Figures:
    """What an entry says was used."""
    values = {name: row._mapping[name] for name in FIGURES}
    proposers = {
        name: ProposerFigures(**{**stats, "accepted_by_position": tuple(stats["accepted_by_position"])})
        for name, stats in values.pop("by_proposer").items()
    }
    versions = {int(version): steps for version, steps in values.pop("config_versions").items()}
    return Figures(**values, by_proposer=proposers, config_versions=versions)

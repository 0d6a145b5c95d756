"""What several reports tell alike: group members, rates, what a proposer did. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.usage_query import GROUPS
from storage.usage import GroupValue
from storage.values import ProposerFigures

Object = dict[str, Any]


def group_object(group: Mapping[str, GroupValue]) -> Object:
    """Every member by which reports group; null where this one does not."""
    return {name: group.get(column) for name, column in GROUPS.items()}


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def proposer_object(totals: ProposerFigures) -> Object:
    """`accepted_by_position`: of how many drafts the first, the second … token was kept."""
    return {
        "drafts": totals.drafts,
        "drafted": totals.drafted,
        "accepted": totals.accepted,
        "rejected": totals.rejected,
        "acceptance_rate": ratio(totals.accepted, totals.drafted),
        "mean_accepted_length": ratio(totals.accepted, totals.drafts),
        "accepted_by_position": list(totals.accepted_by_position),
        "acceptance_by_position": [ratio(kept, totals.drafts) for kept in totals.accepted_by_position],
    }


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

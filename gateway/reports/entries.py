"""Entries of the ledger as they are exported: who, when, how many, how long. Never a text of a request. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row

from storage.values import default_project

SAME = (
    *("route", "outcome", "workload", "cohort", "price_version", "speculation", "sampled", "choices", "final"),
    *("prompt_tokens", "cached_tokens", "generated_tokens", "delivered_tokens", "visible_tokens", "completion_tokens"),
    *("prediction_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens", "rejected_prediction"),
    *("steps", "idle_passes", "drafted_tokens", "accepted_tokens"),
    *("queue_us", "prefill_us", "decode_us", "draft_us", "verify_us", "coordination_us", "share_us", "batch_milli"),
    *("by_proposer", "config_versions", "micros", "reason"),
)
"""Columns that are told under their own names."""


def entry_object(row: Row[Any]) -> dict[str, Any]:
    """`id` is the same each time that an entry is sent: what came before under it is a repeat."""
    return {
        "object": "usage.entry",
        "id": row.entry_id,
        "kind": row.kind,
        "at": int(row.at.timestamp()),
        "at_iso": iso(row.at),
        "request_id": row.request_id,
        "organization_id": row.tenant_id,
        "project_id": row.project_id or default_project(row.tenant_id),
        "api_key_id": row.key_id,
        "model": row.model,
        "deployment_id": row.deployment_id,
        "drafter_version": row.config_version,
        "passes_saved": row.accepted_delivered,
        **{name: row._mapping[name] for name in SAME},
    }


COLUMNS: Sequence[str] = (
    *("object", "id", "kind", "at", "at_iso", "request_id", "organization_id", "project_id", "api_key_id", "model"),
    *("deployment_id", "drafter_version", "passes_saved", *SAME),
)
"""Those of an entry, in CSV."""


def iso(at: datetime) -> str:
    """UTC, to the microsecond."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""The ledger's entries, append-only: a request has one `open`, some `checkpoint`s, one `settle`, later `adjust`s."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    FromClause,
    Index,
    Integer,
    String,
    Table,
    literal_column,
    text,
)

from storage.models.base import UtcMicros, metadata


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("entry_id", String(32), primary_key=True),
    Column("request_id", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("tenant_id", String(64), nullable=False),
    # Null in entries of releases without projects: the tenant's default project.
    Column("project_id", String(80)),
    Column("key_id", String(64), nullable=False),
    Column("model", String(256), nullable=False),
    # What ran it, and the drafter configuration at its admission. Null in entries of releases without deployments.
    Column("deployment_id", String(64)),
    Column("config_version", Integer),
    Column("route", String(128), nullable=False),
    Column("owner", String(128), nullable=False),
    Column("rejected_prediction", String(8), nullable=False),
    Column("choices", Integer, nullable=False),
    Column("workload", String(64)),
    Column("user_hash", String(128)),
    # Fixed at admission. Null in entries of releases that knew neither holdout nor versions of prices.
    Column("cohort", String(8)),
    Column("holdout_ppm", Integer),
    Column("price_version", Integer),
    Column("sampled", Boolean),
    Column("speculation", String(4)),
    Column("at", UtcMicros, nullable=False),
    Column("outcome", String(16)),
    _count("prompt_tokens"),
    _count("cached_tokens"),
    _count("generated_tokens"),
    _count("delivered_tokens"),
    _count("visible_tokens"),
    _count("completion_tokens"),
    _count("prediction_tokens"),
    _count("accepted_prediction_tokens"),
    _count("rejected_prediction_tokens"),
    _count("steps"),
    _count("idle_passes"),
    _count("accepted_delivered"),
    _count("choices_with_output"),
    # The sums over `by_proposer`, so that a report need not open the JSON for its rates.
    _count("drafted_tokens"),
    _count("accepted_tokens"),
    # Those of `timings` that reports sum, in integer microseconds.
    *(_count(f"{name}_us") for name in ("queue", "prefill", "decode", "draft", "verify", "coordination", "share")),
    Column("batch_milli", Integer, nullable=False, server_default="0"),
    Column("final", Boolean, nullable=False, server_default=text("false")),
    Column("by_proposer", JSON, nullable=False, server_default="{}"),
    Column("timings", JSON, nullable=False, server_default="{}"),
    Column("config_versions", JSON, nullable=False, server_default="{}"),
    # Of `adjust` entries: what is added to the request's cost, why, and by whom.
    _count("micros"),
    Column("reason", String(256)),
    Column("author", String(128)),
    CheckConstraint("kind IN ('open', 'checkpoint', 'settle', 'adjust')", name="kind"),
)


def _only(kind: str) -> dict[str, Any]:
    return {"sqlite_where": text(f"kind = '{kind}'"), "postgresql_where": text(f"kind = '{kind}'")}


def of_kind(entries: FromClause, kind: str) -> ColumnElement[bool]:
    """Entries of one kind, written so that the partial indexes below are used: SQLite proves nothing of parameters."""
    return entries.c.kind == literal_column(f"'{kind}'")


_entries = ledger_entries.c
Index("uq_ledger_entries_open", _entries.request_id, unique=True, **_only("open"))
Index("uq_ledger_entries_settle", _entries.request_id, unique=True, **_only("settle"))
Index("ix_ledger_entries_request_id_seq", _entries.request_id, _entries.seq)
Index("ix_ledger_entries_tenant_id_at", _entries.tenant_id, _entries.at, **_only("settle"))
Index("ix_ledger_entries_key_id_at", _entries.key_id, _entries.at, **_only("settle"))
Index("ix_ledger_entries_at", _entries.at, **_only("settle"))
Index("ix_ledger_entries_adjust_at", _entries.at, **_only("adjust"))

"""The tables. The migrations make them; a test compares the two.

Times are integers of microseconds since 1970 UTC: one order, one index and one arithmetic on both databases.
`ledger_entries` is append-only: a request has one `open`, some `checkpoint`s, one `settle`, and later `adjust`s.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    literal_column,
    text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcMicros(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since 1970 UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", String, nullable=False),
)

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(256), nullable=False),
    Column("rejected_prediction", String(8), nullable=False, server_default="free"),
    Column("created_at", UtcMicros, nullable=False),
    CheckConstraint("rejected_prediction IN ('free', 'billed', 'capped')", name="rejected_prediction"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("public_id", String(12), primary_key=True),
    Column("tenant_id", String(64), ForeignKey("tenants.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(256), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("created_at", UtcMicros, nullable=False),
    Column("revoked_at", UtcMicros),
    Column("expires_at", UtcMicros),
    Column("last_used_at", UtcMicros),
    CheckConstraint("kind IN ('inference', 'operator')", name="kind"),
)


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
    Column("key_id", String(64), nullable=False),
    Column("model", String(256), nullable=False),
    Column("route", String(128), nullable=False),
    Column("owner", String(128), nullable=False),
    Column("rejected_prediction", String(8), nullable=False),
    Column("choices", Integer, nullable=False),
    Column("workload", String(64)),
    Column("user_hash", String(128)),
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
    Column("final", Boolean, nullable=False, server_default=text("false")),
    Column("by_proposer", JSON, nullable=False, server_default="{}"),
    Column("timings", JSON, nullable=False, server_default="{}"),
    Column("config_versions", JSON, nullable=False, server_default="{}"),
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

"""Who changed what: events in a chain, and, apart from them, where the chain ends."""

from sqlalchemy import BigInteger, Column, Index, String, Table, Text

from storage.models.base import UtcMicros, metadata

audit_events = Table(
    "audit_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False, unique=True),
    Column("at", UtcMicros, nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(256), nullable=False),
    # Null: an event of the installation, for operators alone.
    Column("tenant_id", String(64)),
    Column("project_id", String(80)),
    Column("actor_kind", String(16), nullable=False),
    Column("actor_id", String(64), nullable=False),
    Column("request_id", String(128)),
    Column("source", String(64)),
    # Before and after, without secrets. Null once erased; `details_mac` still says that they were there.
    Column("details", Text),
    Column("details_mac", String(64), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("mac", String(64), nullable=False),
)
Index("ix_audit_events_tenant_id_seq", audit_events.c.tenant_id, audit_events.c.seq)

audit_ends = Table(
    "audit_ends",
    metadata,
    Column("name", String(8), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("event_mac", String(64), nullable=False),
    Column("mac", String(64), nullable=False),
)

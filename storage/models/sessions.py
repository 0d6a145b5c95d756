"""Who is signed in at the dashboard. A browser's token is not kept, only its hash."""

from sqlalchemy import Column, Index, String, Table

from storage.models.base import UtcMicros, metadata

dashboard_sessions = Table(
    "dashboard_sessions",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("key_id", String(12), nullable=False),
    Column("created_at", UtcMicros, nullable=False),
    Column("seen_at", UtcMicros, nullable=False),
)
Index("ix_dashboard_sessions_seen_at", dashboard_sessions.c.seen_at)

"""Requests that a client named itself (Idempotency-Key): neither the name nor the body is kept, only their hashes."""

from sqlalchemy import Column, Index, String, Table

from storage.models.base import UtcMicros, metadata

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key_id", String(12), primary_key=True),
    Column("route", String(128), primary_key=True),
    Column("name_hash", String(64), primary_key=True),
    Column("body_hash", String(64), nullable=False),
    Column("request_id", String(128), nullable=False),
    Column("at", UtcMicros, nullable=False),
)
Index("ix_idempotency_keys_at", idempotency_keys.c.at)

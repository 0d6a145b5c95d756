"""The labels under which each tenant files its work: the first so many that it used."""

from sqlalchemy import Column, ForeignKey, String, Table

from storage.models.base import UtcMicros, metadata

workload_labels = Table(
    "workload_labels",
    metadata,
    Column("tenant_id", String(64), ForeignKey("tenants.id"), primary_key=True),
    Column("label", String(64), primary_key=True),
    Column("created_at", UtcMicros, nullable=False),
)

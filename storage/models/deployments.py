"""The models that are served, and the drafter configurations that each had: append-only, named by usage rows."""

from sqlalchemy import JSON, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, text

from storage.models.base import UtcMicros, metadata

deployments = Table(
    "deployments",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(256), nullable=False),
    Column("model", String(1024), nullable=False),
    Column("revision", String(64)),
    Column("dtype", String(16)),
    Column("device", String(16), nullable=False, server_default="auto"),
    Column("max_model_len", Integer),
    Column("cache_gib", Float),
    Column("max_sequences", Integer, nullable=False, server_default="32"),
    # Null: engines are started beside each gateway.
    Column("engine_url", String(1024)),
    Column("replicas", Integer, nullable=False, server_default="1"),
    Column("aliases", JSON, nullable=False, server_default="[]"),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("config_version", Integer, nullable=False, server_default="1"),
    Column("created_at", UtcMicros, nullable=False),
    Column("updated_at", UtcMicros, nullable=False),
    # Kept, as usage rows name it; its name is free again.
    Column("deleted_at", UtcMicros),
)
_live = text("deleted_at IS NULL")
Index("uq_deployments_name", deployments.c.name, unique=True, sqlite_where=_live, postgresql_where=_live)

drafter_configs = Table(
    "drafter_configs",
    metadata,
    Column("deployment_id", String(64), ForeignKey("deployments.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("author", String(128), nullable=False),
    Column("reason", String(1024), nullable=False),
    Column("created_at", UtcMicros, nullable=False),
    Column("config", JSON, nullable=False),
)

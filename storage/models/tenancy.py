"""Whom requests are asked and billed by: a tenant has projects, a project has service accounts and keys."""

from sqlalchemy import JSON, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, String, Table, text

from storage.models.base import UtcMicros, metadata

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(256), nullable=False),
    Column("rejected_prediction", String(8), nullable=False, server_default="free"),
    Column("created_at", UtcMicros, nullable=False),
    Column("suspended_at", UtcMicros),
    # Whether its requests with a `prediction` may become controls of the holdout.
    Column("holdout_includes_prediction", Boolean, nullable=False, server_default=text("false")),
    # Its names and keys are gone; the row keeps what the ledger says together.
    Column("erased_at", UtcMicros),
    Column("version", Integer, nullable=False, server_default="1"),
    CheckConstraint("rejected_prediction IN ('free', 'billed', 'capped')", name="rejected_prediction"),
)

projects = Table(
    "projects",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("tenant_id", String(64), ForeignKey("tenants.id"), nullable=False),
    Column("name", String(256), nullable=False),
    Column("is_default", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", UtcMicros, nullable=False),
    Column("archived_at", UtcMicros),
    Column("version", Integer, nullable=False, server_default="1"),
)
Index("ix_projects_tenant_id_id", projects.c.tenant_id, projects.c.id)

service_accounts = Table(
    "service_accounts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("project_id", String(80), ForeignKey("projects.id"), nullable=False, index=True),
    Column("name", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created_at", UtcMicros, nullable=False),
    Column("deleted_at", UtcMicros),
    Column("version", Integer, nullable=False, server_default="1"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("public_id", String(12), primary_key=True),
    Column("tenant_id", String(64), ForeignKey("tenants.id"), nullable=False, index=True),
    # Null for admin keys, and for keys made by a release without projects: the tenant's default project.
    Column("project_id", String(80), index=True),
    Column("service_account_id", String(64), index=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(256), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("scopes", JSON(none_as_null=True)),
    Column("allowed_models", JSON(none_as_null=True)),
    Column("created_at", UtcMicros, nullable=False),
    Column("revoked_at", UtcMicros),
    Column("expires_at", UtcMicros),
    Column("last_used_at", UtcMicros),
    Column("rotated_from", String(12)),
    # Replaced by another key, and still good until then.
    Column("overlap_until", UtcMicros),
    Column("version", Integer, nullable=False, server_default="1"),
    CheckConstraint("kind IN ('inference', 'tenant_admin', 'operator')", name="kind"),
)

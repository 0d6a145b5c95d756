"""Projects, service accounts, keys with scopes, idempotency keys and the audit log

Each tenant gets its default project, `proj_<tenant id>`, and its keys belong to it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KINDS = "kind IN ('inference', 'tenant_admin', 'operator')"
DEFAULT_PROJECTS = """
    INSERT INTO projects (id, tenant_id, name, is_default, created_at)
    SELECT 'proj_' || id, id, 'Default project', true, created_at FROM tenants
"""


def upgrade() -> None:
    op.add_column("tenants", sa.Column("suspended_at", sa.BigInteger(), nullable=True))
    op.add_column("tenants", sa.Column("version", sa.Integer(), server_default="1", nullable=False))
    op.add_column("ledger_entries", sa.Column("project_id", sa.String(length=80), nullable=True))
    _projects()
    _keys()
    _idempotency()
    _audit()
    op.execute(DEFAULT_PROJECTS)
    op.execute("UPDATE api_keys SET project_id = 'proj_' || tenant_id WHERE kind = 'inference'")


def _projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("is_default", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_projects_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index("ix_projects_tenant_id_id", "projects", ["tenant_id", "id"], unique=False)
    op.create_table(
        "service_accounts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_service_accounts_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_accounts")),
    )
    op.create_index(op.f("ix_service_accounts_project_id"), "service_accounts", ["project_id"], unique=False)


def _keys() -> None:
    columns = (
        sa.Column("project_id", sa.String(length=80), nullable=True),
        sa.Column("service_account_id", sa.String(length=64), nullable=True),
        sa.Column("scopes", sa.JSON(), nullable=True),
        sa.Column("allowed_models", sa.JSON(), nullable=True),
        sa.Column("rotated_from", sa.String(length=12), nullable=True),
        sa.Column("overlap_until", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":
        # SQLite changes no check in place: the table is copied.
        with op.batch_alter_table("api_keys", recreate="always", copy_from=_keys_with_the_new_check()) as batch:
            for column in columns:
                batch.add_column(column)
    else:
        for column in columns:
            op.add_column("api_keys", column)
        op.drop_constraint(op.f("ck_api_keys_kind"), "api_keys", type_="check")
        op.create_check_constraint(op.f("ck_api_keys_kind"), "api_keys", KINDS)
    op.create_index(op.f("ix_api_keys_project_id"), "api_keys", ["project_id"], unique=False)
    op.create_index(op.f("ix_api_keys_service_account_id"), "api_keys", ["service_account_id"], unique=False)


def _keys_with_the_new_check() -> sa.Table:
    """As 0001 made it, but for the check: whether a check is read from the database differs between versions."""
    return sa.Table(
        "api_keys",
        sa.MetaData(),
        sa.Column("public_id", sa.String(length=12), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(KINDS, name=op.f("ck_api_keys_kind")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("public_id", name=op.f("pk_api_keys")),
        sa.Index(op.f("ix_api_keys_tenant_id"), "tenant_id"),
    )


def _idempotency() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("key_id", sa.String(length=12), nullable=False),
        sa.Column("route", sa.String(length=128), nullable=False),
        sa.Column("name_hash", sa.String(length=64), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "route", "name_hash", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_at", "idempotency_keys", ["at"], unique=False)


def _audit() -> None:
    op.create_table(
        "audit_events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=256), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=True),
        sa.Column("project_id", sa.String(length=80), nullable=True),
        sa.Column("actor_kind", sa.String(length=16), nullable=False),
        sa.Column("actor_id", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("source", sa.String(length=64), nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("details_mac", sa.String(length=64), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("mac", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_events")),
        sa.UniqueConstraint("id", name=op.f("uq_audit_events_id")),
    )
    op.create_index("ix_audit_events_tenant_id_seq", "audit_events", ["tenant_id", "seq"], unique=False)
    op.create_table(
        "audit_ends",
        sa.Column("name", sa.String(length=8), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("event_mac", sa.String(length=64), nullable=False),
        sa.Column("mac", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_audit_ends")),
    )

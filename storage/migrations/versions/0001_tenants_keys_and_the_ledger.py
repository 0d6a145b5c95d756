"""Tenants, keys and the ledger"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_entries",
        sa.Column("entry_id", sa.String(length=32), nullable=False),
        sa.Column("request_id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=256), nullable=False),
        sa.Column("route", sa.String(length=128), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("rejected_prediction", sa.String(length=8), nullable=False),
        sa.Column("choices", sa.Integer(), nullable=False),
        sa.Column("workload", sa.String(length=64), nullable=True),
        sa.Column("user_hash", sa.String(length=128), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("generated_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("delivered_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("visible_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("prediction_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("accepted_prediction_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rejected_prediction_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("steps", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("idle_passes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("accepted_delivered", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("choices_with_output", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("drafted_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("accepted_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("final", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("by_proposer", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("timings", sa.JSON(), server_default="{}", nullable=False),
        sa.Column("config_versions", sa.JSON(), server_default="{}", nullable=False),
        sa.CheckConstraint("kind IN ('open', 'checkpoint', 'settle', 'adjust')", name=op.f("ck_ledger_entries_kind")),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_ledger_entries")),
    )
    op.create_index(
        "ix_ledger_entries_at",
        "ledger_entries",
        ["at"],
        unique=False,
        sqlite_where=sa.text("kind = 'settle'"),
        postgresql_where=sa.text("kind = 'settle'"),
    )
    op.create_index(
        "ix_ledger_entries_key_id_at",
        "ledger_entries",
        ["key_id", "at"],
        unique=False,
        sqlite_where=sa.text("kind = 'settle'"),
        postgresql_where=sa.text("kind = 'settle'"),
    )
    op.create_index("ix_ledger_entries_request_id_seq", "ledger_entries", ["request_id", "seq"], unique=False)
    op.create_index(
        "ix_ledger_entries_tenant_id_at",
        "ledger_entries",
        ["tenant_id", "at"],
        unique=False,
        sqlite_where=sa.text("kind = 'settle'"),
        postgresql_where=sa.text("kind = 'settle'"),
    )
    op.create_index(
        "uq_ledger_entries_open",
        "ledger_entries",
        ["request_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'open'"),
        postgresql_where=sa.text("kind = 'open'"),
    )
    op.create_index(
        "uq_ledger_entries_settle",
        "ledger_entries",
        ["request_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'settle'"),
        postgresql_where=sa.text("kind = 'settle'"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("rejected_prediction", sa.String(length=8), server_default="free", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "rejected_prediction IN ('free', 'billed', 'capped')", name=op.f("ck_tenants_rejected_prediction")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "api_keys",
        sa.Column("public_id", sa.String(length=12), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('inference', 'operator')", name=op.f("ck_api_keys_kind")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("public_id", name=op.f("pk_api_keys")),
    )
    op.create_index(op.f("ix_api_keys_tenant_id"), "api_keys", ["tenant_id"], unique=False)

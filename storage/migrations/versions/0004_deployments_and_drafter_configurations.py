"""Deployments and drafter configurations"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("model", sa.String(length=1024), nullable=False),
        sa.Column("revision", sa.String(length=64), nullable=True),
        sa.Column("dtype", sa.String(length=16), nullable=True),
        sa.Column("device", sa.String(length=16), server_default="auto", nullable=False),
        sa.Column("max_model_len", sa.Integer(), nullable=True),
        sa.Column("cache_gib", sa.Float(), nullable=True),
        sa.Column("max_sequences", sa.Integer(), server_default="32", nullable=False),
        sa.Column("engine_url", sa.String(length=1024), nullable=True),
        sa.Column("replicas", sa.Integer(), server_default="1", nullable=False),
        sa.Column("aliases", sa.JSON(), server_default="[]", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("config_version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
    )
    op.create_index(
        "uq_deployments_name",
        "deployments",
        ["name"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "drafter_configs",
        sa.Column("deployment_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.id"], name=op.f("fk_drafter_configs_deployment_id")),
        sa.PrimaryKeyConstraint("deployment_id", "version", name=op.f("pk_drafter_configs")),
    )
    op.add_column("ledger_entries", sa.Column("deployment_id", sa.String(length=64), nullable=True))
    op.add_column("ledger_entries", sa.Column("config_version", sa.Integer(), nullable=True))

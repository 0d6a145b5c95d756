"""Limits, budgets and live gateways"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "budget_holds",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_price", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cached_price", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_price", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", "subject", name=op.f("pk_budget_holds")),
    )
    op.create_index(op.f("ix_budget_holds_owner"), "budget_holds", ["owner"], unique=False)
    op.create_index("ix_budget_holds_subject_month", "budget_holds", ["subject", "month"], unique=False)
    op.create_table(
        "budget_spent",
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("subject", "month", name=op.f("pk_budget_spent")),
    )
    op.create_table(
        "gateways",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateways")),
    )
    op.create_table(
        "limit_leases",
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "id", name=op.f("pk_limit_leases")),
    )
    op.create_index("ix_limit_leases_expires_at", "limit_leases", ["expires_at"], unique=False)
    op.create_index("ix_limit_leases_id", "limit_leases", ["id"], unique=False)
    op.create_table(
        "limit_windows",
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("subject", "second", name=op.f("pk_limit_windows")),
    )
    op.create_index("ix_limit_windows_second", "limit_windows", ["second"], unique=False)
    op.create_table(
        "limits",
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("scope_id", sa.String(length=80), nullable=False),
        sa.Column("concurrency", sa.BigInteger(), nullable=True),
        sa.Column("requests_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("input_tokens_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("monthly_tokens", sa.BigInteger(), nullable=True),
        sa.Column("monthly_micros", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.CheckConstraint("scope IN ('tenant', 'project', 'key')", name=op.f("ck_limits_scope")),
        sa.PrimaryKeyConstraint("scope", "scope_id", name=op.f("pk_limits")),
    )
    op.create_table(
        "prices",
        sa.Column("model", sa.String(length=256), nullable=False),
        sa.Column("input", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cached", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_prices")),
    )

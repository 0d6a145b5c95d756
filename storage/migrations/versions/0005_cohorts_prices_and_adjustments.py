"""Cohorts, versions of prices, and adjustments"""

import time
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COUNTS = (
    *(f"{name}_us" for name in ("queue", "prefill", "decode", "draft", "verify", "coordination", "share")),
    "micros",
)


def upgrade() -> None:
    _widen_the_ledger()
    _make_tables()
    op.add_column("budget_holds", sa.Column("rejected_price", sa.BigInteger(), nullable=True))
    op.add_column(
        "tenants",
        sa.Column("holdout_includes_prediction", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("tenants", sa.Column("erased_at", sa.BigInteger(), nullable=True))
    _keep_prices()


def _widen_the_ledger() -> None:
    columns: tuple[sa.Column[Any], ...] = (
        sa.Column("cohort", sa.String(length=8), nullable=True),
        sa.Column("holdout_ppm", sa.Integer(), nullable=True),
        sa.Column("price_version", sa.Integer(), nullable=True),
        sa.Column("sampled", sa.Boolean(), nullable=True),
        sa.Column("speculation", sa.String(length=4), nullable=True),
        *(sa.Column(name, sa.BigInteger(), server_default="0", nullable=False) for name in COUNTS),
        sa.Column("batch_milli", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reason", sa.String(length=256), nullable=True),
        sa.Column("author", sa.String(length=128), nullable=True),
    )
    for column in columns:
        op.add_column("ledger_entries", column)
    adjusts = sa.text("kind = 'adjust'")
    op.create_index(
        "ix_ledger_entries_adjust_at", "ledger_entries", ["at"], sqlite_where=adjusts, postgresql_where=adjusts
    )


def _make_tables() -> None:
    op.create_table(
        "deployment_prices",
        sa.Column("deployment_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("input", sa.BigInteger(), nullable=False),
        sa.Column("cached", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.id"], name=op.f("fk_deployment_prices_deployment_id")),
        sa.PrimaryKeyConstraint("deployment_id", "version", name=op.f("pk_deployment_prices")),
    )
    op.create_table(
        "workload_labels",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_workload_labels_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "label", name=op.f("pk_workload_labels")),
    )


def _keep_prices() -> None:
    """What a deployment's model cost by its name is the first version of its prices."""
    op.get_bind().execute(
        sa.text(
            "INSERT INTO deployment_prices"
            " (deployment_id, version, input, cached, output, rejected, author, reason, created_at)"
            " SELECT d.id, 1, p.input, p.cached, p.output, p.output, 'system', 'Kept from the price by model.', :now"
            " FROM deployments d JOIN prices p ON p.model = d.name WHERE d.deleted_at IS NULL"
        ),
        {"now": time.time_ns() // 1000},
    )

"""Roll-ups of usage"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COUNTS = (
    *("requests", "completed", "disconnected", "error", "engine_lost", "interrupted", "refused", "adjust_micros"),
    *("prompt_tokens", "cached_tokens", "generated_tokens", "delivered_tokens", "visible_tokens", "completion_tokens"),
    *("prediction_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"),
    *("measured_requests", "decode_tokens", "steps", "idle_passes", "accepted_delivered"),
    *("drafted_tokens", "accepted_tokens"),
    *("queue_us", "prefill_us", "decode_us", "draft_us", "verify_us", "coordination_us", "share_us"),
    *("drafting_requests", "acceptance_ppm"),
)


def upgrade() -> None:
    op.create_table(
        "rollup_state",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("hours_through", sa.BigInteger(), nullable=False),
        sa.Column("days_through", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_rollup_state")),
    )
    op.create_table(
        "usage_series",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.BigInteger(), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=True),
        sa.Column("project_id", sa.String(length=80), nullable=True),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("model", sa.String(length=256), nullable=False),
        sa.Column("deployment_id", sa.String(length=64), nullable=True),
        sa.Column("config_version", sa.Integer(), nullable=True),
        sa.Column("price_version", sa.Integer(), nullable=True),
        sa.Column("workload", sa.String(length=64), nullable=True),
        sa.Column("cohort", sa.String(length=8), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_series")),
    )
    for column in ("tenant_id", "project_id", "key_id"):
        op.create_index(f"ix_usage_series_level_{column}", "usage_series", ["level", column])
    for name in ("usage_hours", "usage_days"):
        op.create_table(
            name,
            sa.Column("scope", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("series_id", sa.BigInteger(), autoincrement=False, nullable=False),
            *(sa.Column(count, sa.BigInteger(), nullable=False) for count in COUNTS),
            sa.Column("latencies", sa.LargeBinary(), nullable=False),
            sa.Column("proposers", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("scope", "at", "series_id", name=op.f(f"pk_{name}")),
            sqlite_with_rowid=False,
        )

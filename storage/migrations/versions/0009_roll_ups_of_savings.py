"""Roll-ups of savings"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = ("scope", "at", "series_id")
SUMS = (
    *("requests", "holdout_ppm", "tokens", "micros", "tokens_squared", "tokens_millis", "millis_squared"),
    *("logs", "logs_squared"),
)


def upgrade() -> None:
    for name in ("savings_hours", "savings_days"):
        op.create_table(
            name,
            *(sa.Column(part, sa.BigInteger(), autoincrement=False, nullable=False) for part in KEY),
            sa.Column("stratum", sa.Integer(), autoincrement=False, nullable=False),
            *(sa.Column(total, sa.BigInteger(), nullable=False) for total in SUMS),
            sa.PrimaryKeyConstraint(*KEY, "stratum", name=op.f(f"pk_{name}")),
            sqlite_with_rowid=False,
        )

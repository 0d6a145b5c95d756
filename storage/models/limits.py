"""How much may be asked, and how much is.

limits         what an operator allows a tenant, a project or a key; a missing row or value is no limit
prices         what a model's tokens cost: read by releases without `deployment_prices` alone
gateways       which gateway processes live
limit_leases   running requests, one row for each subject that limits concurrency
limit_windows  requests and tokens a second, for the last minute
budget_holds   what running requests may still cost
budget_spent   what ended requests cost, by calendar month (UTC)

A `subject` is `<scope>:<id>`. What is held or running is the sum of its rows, never a number kept beside them.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, String, Table

from storage.models.base import UtcMicros, metadata

SUBJECT = String(96)


def _amount(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


limits = Table(
    "limits",
    metadata,
    Column("scope", String(8), primary_key=True),
    Column("scope_id", String(80), primary_key=True),
    Column("concurrency", BigInteger),
    Column("requests_per_minute", BigInteger),
    Column("input_tokens_per_minute", BigInteger),
    Column("output_tokens_per_minute", BigInteger),
    Column("monthly_tokens", BigInteger),
    Column("monthly_micros", BigInteger),
    Column("updated_at", UtcMicros, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),
    CheckConstraint("scope IN ('tenant', 'project', 'key')", name="scope"),
)

prices = Table(
    "prices",
    metadata,
    Column("model", String(256), primary_key=True),
    _amount("input"),
    _amount("cached"),
    _amount("output"),
)

gateways = Table(
    "gateways",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("started_at", UtcMicros, nullable=False),
    Column("lease_until", UtcMicros, nullable=False),
)

limit_leases = Table(
    "limit_leases",
    metadata,
    Column("subject", SUBJECT, primary_key=True),
    Column("id", String(128), primary_key=True),
    Column("expires_at", UtcMicros, nullable=False),
)
Index("ix_limit_leases_expires_at", limit_leases.c.expires_at)
Index("ix_limit_leases_id", limit_leases.c.id)

limit_windows = Table(
    "limit_windows",
    metadata,
    Column("subject", SUBJECT, primary_key=True),
    # Seconds since 1970 UTC.
    Column("second", BigInteger, primary_key=True),
    _amount("requests"),
    _amount("input_tokens"),
    _amount("output_tokens"),
)
Index("ix_limit_windows_second", limit_windows.c.second)

budget_holds = Table(
    "budget_holds",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("subject", SUBJECT, primary_key=True),
    # `2026-07`, of the moment it was reserved: a request that spans midnight is paid from the month it began in.
    Column("month", String(7), nullable=False),
    Column("owner", String(128), nullable=False, index=True),
    _amount("tokens"),
    _amount("micros"),
    # The price it was admitted at.
    _amount("input_price"),
    _amount("cached_price"),
    _amount("output_price"),
    # Null in holds of releases without it: as `output_price`.
    Column("rejected_price", BigInteger),
)
Index("ix_budget_holds_subject_month", budget_holds.c.subject, budget_holds.c.month)

budget_spent = Table(
    "budget_spent",
    metadata,
    Column("subject", SUBJECT, primary_key=True),
    Column("month", String(7), primary_key=True),
    _amount("tokens"),
    _amount("micros"),
)

"""What a deployment's tokens cost, in micro-units a million: append-only, pinned by usage rows at admission."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table

from storage.models.base import UtcMicros, metadata

deployment_prices = Table(
    "deployment_prices",
    metadata,
    Column("deployment_id", String(64), ForeignKey("deployments.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("input", BigInteger, nullable=False),
    Column("cached", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column("author", String(128), nullable=False),
    Column("reason", String(1024), nullable=False),
    Column("created_at", UtcMicros, nullable=False),
)

"""Facts about the installation as a whole."""

from sqlalchemy import Column, String, Table

from storage.models.base import metadata

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", String, nullable=False),
)

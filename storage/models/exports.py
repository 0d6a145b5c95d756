"""How far the ledger has been told elsewhere, and which gateway tells it."""

from sqlalchemy import Column, String, Table

from storage.models.base import UtcMicros, metadata

export_cursors = Table(
    "export_cursors",
    metadata,
    Column("name", String(32), primary_key=True),
    # The last entry that was taken.
    Column("at", UtcMicros, nullable=False),
    Column("entry_id", String(32), nullable=False),
    # Who may send, and until when.
    Column("owner", String(128), nullable=False),
    Column("lease_until", UtcMicros, nullable=False),
)

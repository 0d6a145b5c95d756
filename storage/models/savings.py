"""Sums that tell what speculation saved: by hour and by day, for each series of usage and each stratum of its requests.

Kept by key and of the whole fleet; `storage.savings` says what a stratum is, and what the sums are for.
"""

from sqlalchemy import BigInteger, Column, Integer, Table

from storage.models.base import UtcMicros, metadata
from storage.savings.sums import NAMES


def _sums(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("scope", BigInteger, primary_key=True, autoincrement=False),
        Column("at", UtcMicros, primary_key=True, autoincrement=False),
        Column("series_id", BigInteger, primary_key=True, autoincrement=False),
        # Twice the cell; of controls one more in the second half.
        Column("stratum", Integer, primary_key=True, autoincrement=False),
        *(Column(count, BigInteger, nullable=False) for count in NAMES),
        sqlite_with_rowid=False,
    )


savings_hours = _sums("savings_hours")
savings_days = _sums("savings_days")

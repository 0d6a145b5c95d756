"""Sums of settled rows by hour and by day, at five levels: by key and by project, each with and without all other
dimensions, and of the whole fleet.

rollup_state   how far each roll-up has come, and which gateway is at it
usage_series   one row for each combination of dimensions at a level; those that the level leaves out are null
usage_hours    its sums in an hour
usage_days     its sums in a day

A scope is a key, a project or the fleet: what one report reads lies together, and an hour is written in few places.
Ids of series and scopes are hashes of what they name (`storage.rollups.series`).
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from storage.models.base import UtcMicros, metadata
from storage.values.usage import COUNTED

rollup_state = Table(
    "rollup_state",
    metadata,
    Column("name", String(32), primary_key=True),
    # Hours and days that end at or before these are final and written.
    Column("hours_through", UtcMicros, nullable=False),
    Column("days_through", UtcMicros, nullable=False),
    Column("owner", String(128), nullable=False),
    Column("lease_until", UtcMicros, nullable=False),
)

usage_series = Table(
    "usage_series",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("scope", BigInteger, nullable=False),
    Column("level", String(8), nullable=False),
    Column("tenant_id", String(64)),
    Column("project_id", String(80)),
    Column("key_id", String(64)),
    # Empty where the level leaves it out.
    Column("model", String(256), nullable=False),
    Column("deployment_id", String(64)),
    Column("config_version", Integer),
    Column("price_version", Integer),
    Column("workload", String(64)),
    Column("cohort", String(8)),
)
_s = usage_series.c
Index("ix_usage_series_level_tenant_id", _s.level, _s.tenant_id)
Index("ix_usage_series_level_project_id", _s.level, _s.project_id)
Index("ix_usage_series_level_key_id", _s.level, _s.key_id)


def _facts(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("scope", BigInteger, primary_key=True, autoincrement=False),
        Column("at", UtcMicros, primary_key=True, autoincrement=False),
        Column("series_id", BigInteger, primary_key=True, autoincrement=False),
        *(Column(count, BigInteger, nullable=False) for count in COUNTED),
        # Histograms, and proposers with their positions (`storage.rollups.packed`): adding is putting end to end.
        Column("latencies", LargeBinary, nullable=False),
        Column("proposers", LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


usage_hours = _facts("usage_hours")
usage_days = _facts("usage_days")

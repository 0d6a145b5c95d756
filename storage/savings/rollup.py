"""The roll-up of savings: for each series and stratum the sums of an hour, and of a day."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, func, select

from storage.database import Session
from storage.models import ledger_entries, savings_days, savings_hours, usage_series
from storage.rollups.rollup import Written
from storage.rollups.rows import COLUMNS
from storage.rollups.series import Dimensions, Level, at_level, series_row
from storage.rollups.watermark import DAY
from storage.savings.observation import Observation, observe
from storage.savings.sums import NAMES, Sums
from storage.values.usage import GROUPS

LEVELS: tuple[Level, ...] = ("key", "fleet")
READ = (
    *("request_id", "final", "generated_tokens", "choices_with_output", "prompt_tokens", "drafted_tokens"),
    *("decode_us", "batch_milli", "sampled", "holdout_ppm", "config_versions"),
)
_dimensions = attrgetter(*GROUPS)
_e, _h = ledger_entries.c, savings_hours.c
Strata = dict[int, Sums]


class SavingsRollUp:
    name = "savings"
    columns: tuple[ColumnElement[Any], ...] = (
        *(column for column in COLUMNS if column.name in {"at", *GROUPS}),
        *(_e[name] for name in READ),
    )
    tables = (savings_hours, savings_days)

    def hour(self, at: datetime) -> "SavingsHour":
        return SavingsHour(at)

    async def day(self, session: Session, at: datetime) -> AsyncIterator[Written]:
        """A scope at a time: what is in memory is one tenant's day."""
        s = usage_series.c
        scopes = select(s.scope).where(s.level.in_(LEVELS)).distinct().order_by(s.scope)
        for scope in await session.scalars(scopes):
            if rows := await _day(session, scope, at):
                yield savings_days, rows


class SavingsHour:
    def __init__(self, at: datetime) -> None:
        self._at = at
        self._by_key: dict[Dimensions, Strata] = defaultdict(lambda: defaultdict(Sums))

    def add_row(self, row: Any) -> None:
        seen = observe(row)
        if seen is not None:
            self._by_key[_dimensions(row)][code(seen)] += seen.sums

    def rows(self) -> Iterator[Written]:
        for level in LEVELS:
            found = _lifted(level, self._by_key)
            series = sorted(((series_row(level, d), d) for d in found), key=lambda pair: pair[0]["id"])
            yield usage_series, [row for row, _ in series]
            yield savings_hours, [one for row, d in series for one in self._rows(row, found[d])]

    def _rows(self, series: Mapping[str, Any], strata: Strata) -> Iterator[dict[str, Any]]:
        for stratum, sums in sorted(strata.items()):
            key = {"scope": series["scope"], "at": self._at, "series_id": series["id"], "stratum": stratum}
            yield key | dict(zip(NAMES, sums.members, strict=True))


def code(seen: Observation) -> int:
    """A stratum within its series: only controls are kept in halves."""
    return 2 * seen.stratum.cell + (seen.half if seen.cohort == "control" else 0)


def _lifted(level: Level, below: Mapping[Dimensions, Strata]) -> dict[Dimensions, Strata]:
    found: dict[Dimensions, Strata] = defaultdict(lambda: defaultdict(Sums))
    for dimensions, strata in below.items():
        for stratum, sums in strata.items():
            found[at_level(level, dimensions)][stratum] += sums
    return found


async def _day(session: Session, scope: int, at: datetime) -> list[dict[str, Any]]:
    key = (_h.scope, _h.series_id, _h.stratum)
    statement = (
        select(*key, *(func.sum(_h[name]).label(name) for name in NAMES))
        .where(_h.scope == scope, _h.at >= at, _h.at < at + DAY)
        .group_by(*key)
        .order_by(*key)
    )
    rows = (row._asdict() for row in await session.execute(statement))
    return [{**row, **{name: int(row[name]) for name in NAMES}, "at": at} for row in rows]

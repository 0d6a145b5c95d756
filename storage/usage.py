"""Usage by time bucket and group, summed by the database over settled entries alone.

A request counts in the bucket of its settlement. Every sum is of integers; rates are left to the reader, except the
mean of per-request acceptance rates, which only the rows can give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Float,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
    type_coerce,
)

from storage.database import Session
from storage.models import EPOCH, ledger_entries, of_kind

Group = Literal["tenant_id", "project_id", "key_id", "model"]
SUMMED = (
    "prompt_tokens",
    "cached_tokens",
    "generated_tokens",
    "delivered_tokens",
    "visible_tokens",
    "completion_tokens",
    "prediction_tokens",
    "accepted_prediction_tokens",
    "rejected_prediction_tokens",
)
"""Summed over every settled request."""
MEASURED = ("steps", "idle_passes", "accepted_delivered", "drafted_tokens", "accepted_tokens")
"""Summed over requests whose figures are the engine's last word, as are the proposers' totals."""
_e = ledger_entries.c
_PROJECT = func.coalesce(_e.project_id, literal_column("'proj_'") + _e.tenant_id)
"""Entries of releases without projects count for the tenant's default one."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Settled in [start, end), in buckets of `width` that begin at multiples of it since 1970 UTC."""

    start: datetime
    end: datetime
    width: timedelta
    group_by: Sequence[Group] = ()
    tenant_ids: Sequence[str] = ()
    project_ids: Sequence[str] = ()
    key_ids: Sequence[str] = ()
    models: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProposerTotals:
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def rejected(self) -> int:
        return self.drafted - self.accepted


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sums of one group in one bucket."""

    bucket: datetime
    group: Mapping[str, str]
    requests: int
    measured_requests: int
    """Those with the engine's last word: not cut by the death of a process."""
    decode_tokens: int
    """Of measured requests: tokens emitted after each choice's first; equals steps + accepted_delivered."""
    sums: Mapping[str, int]
    """By the names in SUMMED and MEASURED."""
    mean_request_acceptance: float | None
    """Mean over requests with drafts of accepted / drafted; None where there was none."""
    by_proposer: Mapping[str, ProposerTotals] = field(default_factory=dict)


class Usage:
    """Reports on the ledger, in one view."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def rows(self, query: UsageQuery) -> list[UsageRow]:
        """By bucket, then by group; groups without a request are left out."""
        proposers = await self._proposers(query)
        found = await self._session.execute(_totals(query))
        return [_row(row._mapping, query.group_by, proposers) for row in found]

    async def _proposers(self, query: UsageQuery) -> dict[tuple[Any, ...], dict[str, ProposerTotals]]:
        totals: dict[tuple[Any, ...], dict[str, ProposerTotals]] = {}
        for row in await self._session.execute(_by_proposer(query)):
            key = _key(row._mapping, query.group_by)
            totals.setdefault(key, {})[row.proposer] = ProposerTotals(row.drafts, row.drafted, row.accepted)
        return totals


def _row(
    values: Mapping[Any, Any],
    group_by: Sequence[Group],
    proposers: Mapping[tuple[Any, ...], Mapping[str, ProposerTotals]],
) -> UsageRow:
    return UsageRow(
        bucket=EPOCH + timedelta(microseconds=values["bucket"]),
        group={name: values[name] for name in group_by},
        requests=values["requests"],
        measured_requests=int(values["measured_requests"]),
        decode_tokens=int(values["decode_tokens"]),
        sums={name: int(values[name]) for name in (*SUMMED, *MEASURED)},
        mean_request_acceptance=values["mean_request_acceptance"],
        by_proposer=proposers.get(_key(values, group_by), {}),
    )


def _key(values: Mapping[Any, Any], group_by: Sequence[Group]) -> tuple[Any, ...]:
    return (values["bucket"], *(values[name] for name in group_by))


def _totals(query: UsageQuery) -> Select[Any]:
    rate = case((and_(_e.final, _e.drafted_tokens > 0), cast(_e.accepted_tokens, Float) / _e.drafted_tokens))
    return _grouped(
        query,
        func.count().label("requests"),
        func.avg(rate).label("mean_request_acceptance"),
        _measured(literal(1)).label("measured_requests"),
        _measured(_e.generated_tokens - _e.choices_with_output).label("decode_tokens"),
        *(func.sum(_e[name]).label(name) for name in SUMMED),
        *(_measured(_e[name]).label(name) for name in MEASURED),
    )


def _measured(figure: ColumnElement[int]) -> ColumnElement[int]:
    return func.sum(case((_e.final, figure), else_=0))


def _by_proposer(query: UsageQuery) -> Select[Any]:
    # Both databases have `json_each` with these two columns.
    each = func.json_each(_e.by_proposer).table_valued("key", "value", name="each", joins_implicitly=True)
    stats = type_coerce(each.c.value, JSON)
    name = cast(each.c.key, String).label("proposer")
    sums = (func.sum(stats[figure].as_integer()).label(figure) for figure in ("drafts", "drafted", "accepted"))
    return _grouped(query, name, *sums).where(_e.final).group_by(name).order_by(name)


def _grouped(query: UsageQuery, *columns: ColumnElement[Any]) -> Select[Any]:
    micros = type_coerce(_e.at, BigInteger)
    width = query.width // timedelta(microseconds=1)
    bucket = (micros - micros % width).label("bucket")
    groups: list[ColumnElement[Any]] = [_column(name).label(name) for name in query.group_by]
    return select(bucket, *groups, *columns).where(*_scope(query)).group_by(bucket, *groups).order_by(bucket, *groups)


def _scope(query: UsageQuery) -> list[ColumnElement[bool]]:
    scope = [of_kind(ledger_entries, "settle"), _e.at >= query.start, _e.at < query.end]
    wanted: dict[Group, Sequence[str]] = {
        "tenant_id": query.tenant_ids,
        "project_id": query.project_ids,
        "key_id": query.key_ids,
        "model": query.models,
    }
    return scope + [_column(name).in_(values) for name, values in wanted.items() if values]


def _column(name: Group) -> ColumnElement[str]:
    return _PROJECT if name == "project_id" else _e[name]

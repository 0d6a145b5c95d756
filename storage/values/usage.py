"""Values of usage reports: what is asked, and the sums that answer it.

Every figure is a whole number that adds up over rows; rates, means and percentiles are made of the sums by who reads
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from storage.histogram import Histogram
from storage.values.ledger import Outcome, ProposerFigures

Group = Literal[
    "tenant_id",
    "project_id",
    "key_id",
    "model",
    "deployment_id",
    "config_version",
    "price_version",
    "workload",
    "cohort",
]
GROUPS: tuple[Group, ...] = get_args(Group)
GroupValue = str | int | None
"""None: entries of a release that did not note it; of `workload` and `cohort` also requests that had none."""
Latency = Literal["queue", "prefill", "decode", "token"]
"""Durations that have a histogram; `token`: decode time by decode token of a request."""
LATENCIES: tuple[Latency, ...] = get_args(Latency)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
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
"""Summed over requests whose figures are the engine's last word, as are timings, histograms and proposers."""
TIMINGS = ("queue", "prefill", "decode", "draft", "verify", "coordination", "share")
"""decode = draft + verify + coordination; `share`: of the passes it took part in, by rows."""
COUNTED = (
    *("requests", *OUTCOMES, "adjust_micros"),
    *SUMMED,
    *("measured_requests", "decode_tokens", *MEASURED),
    *(f"{name}_us" for name in TIMINGS),
    *("drafting_requests", "acceptance_ppm"),
)
"""All whole numbers that are summed, in the order of `Facts.sums` and of the roll-ups' columns."""
MINUTE_RANGE = timedelta(hours=24)
"""The longest range that may be asked in buckets of less than an hour: these are read from rows."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Settled in [start, end), in buckets of `width` that begin at multiples of it since 1970 UTC.

    Without a width the range is one bucket. Of a list that is not empty a row must match one value; None matches
    what was not noted. Raises ValueError where the range is too long for the width.
    """

    start: datetime
    end: datetime
    width: timedelta | None
    group_by: Sequence[Group] = ()
    tenant_ids: Sequence[str] = ()
    project_ids: Sequence[str] = ()
    key_ids: Sequence[str] = ()
    models: Sequence[str] = ()
    deployment_ids: Sequence[str | None] = ()
    config_versions: Sequence[int | None] = ()
    price_versions: Sequence[int | None] = ()
    workloads: Sequence[str | None] = ()
    cohorts: Sequence[str | None] = ()

    def __post_init__(self) -> None:
        if self.width and self.width % timedelta(hours=1) and self.end - self.start > MINUTE_RANGE:
            raise ValueError("Buckets of less than an hour are answered for at most 24 hours: ask for a shorter range.")

    @property
    def filters(self) -> dict[Group, Sequence[GroupValue]]:
        """The lists that are not empty, by what they look at."""
        every = {name: getattr(self, f"{name}s") for name in GROUPS}
        return {name: values for name, values in every.items() if values}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sums of one group in one bucket."""

    bucket: datetime
    """Its start; without a width, that of the range."""
    group: Mapping[str, GroupValue]
    requests: int
    measured_requests: int
    """Those with the engine's last word: not cut by the death of a process."""
    decode_tokens: int
    """Of measured requests: tokens emitted after each choice's first; equals steps + accepted_delivered."""
    sums: Mapping[str, int]
    """By the names in SUMMED and MEASURED."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Requests by the names in OUTCOMES."""
    timings: Mapping[str, int] = field(default_factory=dict)
    """Microseconds by the names in TIMINGS."""
    latencies: Mapping[Latency, Histogram] = field(default_factory=dict)
    by_proposer: Mapping[str, ProposerFigures] = field(default_factory=dict)
    drafting_requests: int = 0
    """Measured requests for which anything was drafted."""
    acceptance_ppm: int = 0
    """Sum over these of accepted / drafted, each in whole parts per million."""
    adjust_micros: int = 0
    """Corrections that `adjust` entries of this time made to costs."""

    @property
    def mean_request_acceptance(self) -> float | None:
        """Mean over requests with drafts of accepted / drafted; None where there was none."""
        return self.acceptance_ppm / self.drafting_requests / 1_000_000 if self.drafting_requests else None


def merged(rows: Iterable[UsageRow], bucket: datetime, group: Mapping[str, GroupValue]) -> UsageRow:
    """Rows as one, under another name."""
    total = UsageRow(bucket, group, 0, 0, 0, dict.fromkeys((*SUMMED, *MEASURED), 0))
    for row in rows:
        figures = (f.name for f in fields(UsageRow)[2:])
        added: dict[str, Any] = {name: _plus(getattr(total, name), getattr(row, name)) for name in figures}
        total = UsageRow(bucket, group, **added)
    return total


def _plus(mine: Any, theirs: Any) -> Any:
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        return mine + theirs
    both = {name: mine[name] + theirs[name] for name in mine.keys() & theirs.keys()}
    return {name: both.get(name, {**mine, **theirs}[name]) for name in {**mine, **theirs}}


@dataclass(frozen=True, slots=True)
class UsageReport:
    rows: Sequence[UsageRow]
    rolled_up_through: datetime | None
    """Every figure before this is final. None: no hour was rolled up yet."""

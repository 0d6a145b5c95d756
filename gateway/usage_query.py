"""What a usage report is asked for, from a query string. Pure; all times are UTC.

Buckets begin at multiples of their width since 1970 UTC; the first and the last are cut to the range asked for, so
that a bucket's figures are those of exactly the time it names. Each report has its words: what it groups by, what it
filters by, how wide its buckets may be.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.errors import InvalidRequest
from gateway.query import Query, integer, read_query
from storage.usage import Group, UsageQuery

SINGLES = ("start_time", "end_time", "bucket_width", "limit", "page", "format")
LATEST = 253_370_764_800
"""The year 9999, a year before datetimes end: what is rounded up to a bucket's end is still one."""
Width = tuple[int, int, int]
"""Seconds, buckets by default, buckets at most."""
Widths = Mapping[str, Width]
WIDTHS: Widths = {"1m": (60, 60, 1440), "1h": (3600, 24, 168), "1d": (86400, 7, 31)}
GROUPS: Mapping[str, Group] = {
    "project_id": "project_id",
    "api_key_id": "key_id",
    "model": "model",
    "organization_id": "tenant_id",
    "deployment_id": "deployment_id",
    "drafter_version": "config_version",
    "workload": "workload",
    "cohort": "cohort",
}
"""Member of a result → what storage calls it."""
FILTERS: Mapping[str, Group] = {
    "project_ids": "project_id",
    "api_key_ids": "key_id",
    "models": "model",
    "deployment_ids": "deployment_id",
    "drafter_versions": "config_version",
    "workloads": "workload",
    "cohorts": "cohort",
}
ALIKE = ("user_id", "batch", "service_tier", "api_source")
"""OpenAI's groups of which everything here is in one: requests are made by keys, at once, in one tier."""


@dataclass(frozen=True, slots=True)
class Words:
    """What one report understands."""

    widths: Widths
    groups: tuple[str, ...]
    filters: tuple[str, ...]
    are_buckets_whole: bool = False
    """The range is widened to whole buckets."""


COMPLETIONS = Words(WIDTHS, (*GROUPS, *ALIKE), (*FILTERS, "user_ids"))
SPECULATION = Words(WIDTHS, (*GROUPS, "proposer"), tuple(FILTERS))
COSTS = Words(
    {"1d": (86400, 7, 180)},
    ("project_id", "line_item", "api_key_id", "organization_id", "user_id", "api_source"),
    ("project_ids", "api_key_ids", "line_items"),
    are_buckets_whole=True,
)


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """One page of a report: buckets of `width` seconds from `first`, cut to [start, end)."""

    start: int
    end: int
    width: int
    first: int
    limit: int
    group_by: tuple[str, ...]
    filters: Mapping[str, tuple[str, ...]]
    is_batch: bool = False
    """Asked for batch jobs alone, of which there are none."""
    format: str | None = None
    """`csv` or `json`, where it was asked for."""

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """Start and end of each bucket of the page."""
        starts = range(self.first, min(self.end, self.first + self.limit * self.width), self.width)
        return [(max(s, self.start), min(s + self.width, self.end)) for s in starts]

    @property
    def next_page(self) -> str | None:
        following = self.first + self.limit * self.width
        return f"page_{following}" if following < self.end else None

    @property
    def asks_for_nothing(self) -> bool:
        """No request here is of a user or a batch."""
        return self.is_batch or bool(self.filters.get("user_ids"))

    def for_storage(self, tenant_id: str | None = None) -> UsageQuery:
        """`tenant_id`: the only tenant it may tell of; None: it tells of all."""
        buckets = self.buckets
        wanted: dict[str, Any] = {
            f"{FILTERS[name]}s": [int(value) if name == "drafter_versions" else value for value in values]
            for name, values in self.filters.items()
            if name in FILTERS
        }
        return UsageQuery(
            start=utc(buckets[0][0]),
            end=utc(buckets[-1][1]),
            width=timedelta(seconds=self.width),
            group_by=[GROUPS[name] for name in self.group_by if name in GROUPS],
            tenant_ids=() if tenant_id is None else (tenant_id,),
            **wanted,
        )


def parse_query(items: Iterable[tuple[str, str]], now: int, words: Words = COMPLETIONS) -> ReportQuery:
    """Lists are read with and without `[]`. Raises InvalidRequest, also for what this report cannot filter by."""
    singles = (*SINGLES, "batch") if "batch" in words.groups else SINGLES
    query = read_query(items, singles, ("group_by", *words.filters))
    width, default_limit, max_limit = _width(query, words.widths)
    start, end = _range(query.singles, width, now)
    first = start - start % width
    if words.are_buckets_whole:
        start, end = first, min(end + -end % width, LATEST - 1)
    return ReportQuery(
        start=start,
        end=end,
        width=width,
        first=_page(query.singles["page"], first, end, width) if "page" in query.singles else first,
        limit=query.integer("limit", 1, max_limit) or default_limit,
        group_by=_groups(query.lists["group_by"], words.groups),
        filters=_filters(query, words.filters),
        is_batch=query.one_of("batch", "true", "false") == "true",
        format=query.one_of("format", "csv", "json"),
    )


def _width(query: Query, widths: Widths) -> Width:
    return widths[query.one_of("bucket_width", *widths) or "1d"]


def _range(singles: Mapping[str, str], width: int, now: int) -> tuple[int, int]:
    """Without an end: to the end of the running bucket."""
    if "start_time" not in singles:
        raise InvalidRequest("start_time is required: unix seconds, UTC.", "start_time", "missing_required_parameter")
    start = integer("start_time", singles["start_time"], 0, LATEST - 2)
    running = max(now, start)
    end = running - running % width + width
    if "end_time" in singles:
        end = integer("end_time", singles["end_time"], 1, LATEST - 1)
    if end <= start:
        raise InvalidRequest("end_time must be after start_time; it is exclusive.", "end_time")
    return start, end


def _page(token: str, first: int, end: int, width: int) -> int:
    match = re.fullmatch(r"page_([0-9]{1,12})", token)
    at = int(match[1]) if match else -1
    if not first <= at < end or at % width:
        raise InvalidRequest("Invalid page: send the next_page of the same query, unchanged.", "page")
    return at


def _groups(names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise InvalidRequest(f"Invalid group_by: use {', '.join(known)}.", "group_by")
    return tuple(dict.fromkeys(names))


def _filters(query: Query, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    for text in query.lists.get("drafter_versions", ()):
        integer("drafter_versions", text, 0, 2**31 - 1)
    return {name: tuple(query.lists[name]) for name in names if query.lists[name]}


def utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

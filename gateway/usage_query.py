"""What a usage report is asked for, from a query string. Pure; all times are UTC.

Buckets begin at multiples of their width since 1970 UTC; the first and the last are cut to the range asked for, so
that a bucket's figures are those of exactly the time it names.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateway.errors import InvalidRequest
from gateway.query import integer, read_query
from storage.usage import Group, UsageQuery

WIDTHS = {"1m": (60, 60, 1440), "1h": (3600, 24, 168), "1d": (86400, 7, 31)}
"""Name → seconds, buckets by default, buckets at most."""
GROUPS: dict[str, Group] = {
    "project_id": "project_id",
    "api_key_id": "key_id",
    "model": "model",
    "organization_id": "tenant_id",
}
LISTS = ("group_by", "project_ids", "api_key_ids", "models")
SINGLES = ("start_time", "end_time", "bucket_width", "limit", "page")
LATEST = 253_402_300_800
"""The year 10000, where datetimes end."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """One page of a report: buckets of `width` seconds from `first`, cut to [start, end)."""

    start: int
    end: int
    width: int
    first: int
    limit: int
    group_by: tuple[str, ...]
    project_ids: tuple[str, ...]
    api_key_ids: tuple[str, ...]
    models: tuple[str, ...]

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """Start and end of each bucket of the page."""
        starts = range(self.first, min(self.end, self.first + self.limit * self.width), self.width)
        return [(max(s, self.start), min(s + self.width, self.end)) for s in starts]

    @property
    def next_page(self) -> str | None:
        following = self.first + self.limit * self.width
        return f"page_{following}" if following < self.end else None

    def for_storage(self, tenant_id: str | None = None) -> UsageQuery:
        """`tenant_id`: the only tenant it may tell of; None: it tells of all."""
        buckets = self.buckets
        return UsageQuery(
            start=utc(buckets[0][0]),
            end=utc(buckets[-1][1]),
            width=timedelta(seconds=self.width),
            group_by=[GROUPS[name] for name in self.group_by],
            tenant_ids=() if tenant_id is None else (tenant_id,),
            project_ids=self.project_ids,
            key_ids=self.api_key_ids,
            models=self.models,
        )


def parse_query(items: Iterable[tuple[str, str]], now: int) -> ReportQuery:
    """Lists are read with and without `[]`. Raises InvalidRequest, also for what this report cannot filter by."""
    query = read_query(items, SINGLES, LISTS)
    singles, lists = query.singles, query.lists
    width, default_limit, max_limit = _width(singles.get("bucket_width", "1d"))
    start, end = _range(singles, width, now)
    first = start - start % width
    return ReportQuery(
        start=start,
        end=end,
        width=width,
        first=_page(singles["page"], first, end, width) if "page" in singles else first,
        limit=integer("limit", singles["limit"], 1, max_limit) if "limit" in singles else default_limit,
        group_by=_groups(lists["group_by"]),
        project_ids=tuple(lists["project_ids"]),
        api_key_ids=tuple(lists["api_key_ids"]),
        models=tuple(lists["models"]),
    )


def _width(name: str) -> tuple[int, int, int]:
    if name not in WIDTHS:
        raise InvalidRequest(f"Invalid bucket_width: use one of {', '.join(WIDTHS)}.", "bucket_width")
    return WIDTHS[name]


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


def _groups(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in GROUPS:
            raise InvalidRequest(f"Invalid group_by: use {', '.join(GROUPS)}.", "group_by")
    return tuple(dict.fromkeys(names))


def utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

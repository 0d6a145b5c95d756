"""The usage report, from a query string to OpenAI's page of buckets. Pure; all times are UTC.

Buckets begin at multiples of their width since 1970 UTC; the first and the last are cut to the range asked for, so
that a bucket's figures are those of exactly the time it names. Beside OpenAI's members every result has
`speculation`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.errors import InvalidRequest
from storage.usage import Group, ProposerTotals, UsageQuery, UsageRow

WIDTHS = {"1m": (60, 60, 1440), "1h": (3600, 24, 168), "1d": (86400, 7, 31)}
"""Name → seconds, buckets by default, buckets at most."""
GROUPS: dict[str, Group] = {"project_id": "tenant_id", "api_key_id": "key_id", "model": "model"}
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

    def for_storage(self) -> UsageQuery:
        buckets = self.buckets
        return UsageQuery(
            start=_time(buckets[0][0]),
            end=_time(buckets[-1][1]),
            width=timedelta(seconds=self.width),
            group_by=[GROUPS[name] for name in self.group_by],
            tenant_ids=self.project_ids,
            key_ids=self.api_key_ids,
            models=self.models,
        )


def parse_query(items: Iterable[tuple[str, str]], now: int) -> ReportQuery:
    """Lists are read with and without `[]`. Raises InvalidRequest, also for what this report cannot filter by."""
    lists: dict[str, list[str]] = {name: [] for name in LISTS}
    singles: dict[str, str] = {}
    for raw, value in items:
        name = raw.removesuffix("[]")
        if name in lists:
            lists[name].append(value)
        elif raw in SINGLES:
            singles[name] = value
        else:
            raise InvalidRequest(f"Unknown parameter: '{raw}'. This report takes {', '.join((*SINGLES, *LISTS))}.", raw)
    width, default_limit, max_limit = _width(singles.get("bucket_width", "1d"))
    start, end = _range(singles, width, now)
    first = start - start % width
    return ReportQuery(
        start=start,
        end=end,
        width=width,
        first=_page(singles["page"], first, end, width) if "page" in singles else first,
        limit=_integer("limit", singles["limit"], 1, max_limit) if "limit" in singles else default_limit,
        group_by=_groups(lists["group_by"]),
        project_ids=tuple(lists["project_ids"]),
        api_key_ids=tuple(lists["api_key_ids"]),
        models=tuple(lists["models"]),
    )


def page(query: ReportQuery, rows: Sequence[UsageRow]) -> dict[str, Any]:
    """The answer: every bucket of the page, also those without a request."""
    return {
        "object": "page",
        "data": [_bucket(query, start, end, rows) for start, end in query.buckets],
        "has_more": query.next_page is not None,
        "next_page": query.next_page,
    }


def _bucket(query: ReportQuery, start: int, end: int, rows: Sequence[UsageRow]) -> dict[str, Any]:
    of_bucket = _time(start - start % query.width)
    return {
        "object": "bucket",
        "start_time": start,
        "end_time": end,
        "start_time_iso": _iso(start),
        "end_time_iso": _iso(end),
        "results": [result(row) for row in rows if row.bucket == of_bucket],
    }


def result(row: UsageRow) -> dict[str, Any]:
    """One group of one bucket."""
    sums = row.sums
    return {
        "object": "organization.usage.completions.result",
        "input_tokens": sums["prompt_tokens"],
        "input_cached_tokens": sums["cached_tokens"],
        "input_uncached_tokens": sums["prompt_tokens"] - sums["cached_tokens"],
        "output_tokens": sums["completion_tokens"],
        "num_model_requests": row.requests,
        **{name: row.group.get(column) for name, column in GROUPS.items()},
        "user_id": None,
        "batch": None,
        "service_tier": None,
        "speculation": _speculation(row),
    }


def _speculation(row: UsageRow) -> dict[str, Any]:
    sums = row.sums
    return {
        "visible_output_tokens": sums["visible_tokens"],
        "generated_tokens": sums["generated_tokens"],
        "delivered_tokens": sums["delivered_tokens"],
        "prediction_tokens": sums["prediction_tokens"],
        "accepted_prediction_tokens": sums["accepted_prediction_tokens"],
        "rejected_prediction_tokens": sums["rejected_prediction_tokens"],
        "num_measured_requests": row.measured_requests,
        "decode_tokens": row.decode_tokens,
        "steps": sums["steps"],
        "passes_saved": sums["accepted_delivered"],
        "idle_passes": sums["idle_passes"],
        "mean_accepted_length": _ratio(row.decode_tokens, sums["steps"]),
        "drafted_tokens": sums["drafted_tokens"],
        "accepted_tokens": sums["accepted_tokens"],
        "rejected_tokens": sums["drafted_tokens"] - sums["accepted_tokens"],
        "acceptance_rate": _ratio(sums["accepted_tokens"], sums["drafted_tokens"]),
        "mean_request_acceptance_rate": row.mean_request_acceptance,
        "by_proposer": {name: _proposer(totals) for name, totals in row.by_proposer.items()},
    }


def _proposer(totals: ProposerTotals) -> dict[str, Any]:
    return {
        "drafts": totals.drafts,
        "drafted": totals.drafted,
        "accepted": totals.accepted,
        "rejected": totals.rejected,
        "acceptance_rate": _ratio(totals.accepted, totals.drafted),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _width(name: str) -> tuple[int, int, int]:
    if name not in WIDTHS:
        raise InvalidRequest(f"Invalid bucket_width: use one of {', '.join(WIDTHS)}.", "bucket_width")
    return WIDTHS[name]


def _range(singles: Mapping[str, str], width: int, now: int) -> tuple[int, int]:
    """Without an end: to the end of the running bucket."""
    if "start_time" not in singles:
        raise InvalidRequest("start_time is required: unix seconds, UTC.", "start_time", "missing_required_parameter")
    start = _integer("start_time", singles["start_time"], 0, LATEST - 1)
    running = max(now, start)
    end = running - running % width + width
    if "end_time" in singles:
        end = _integer("end_time", singles["end_time"], 0, LATEST - 1)
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


def _integer(name: str, text: str, least: int, most: int) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,15}", text) else -1
    if not least <= value <= most:
        raise InvalidRequest(f"Invalid {name}: use an integer from {least} to {most}.", name)
    return value


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _iso(seconds: int) -> str:
    return _time(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")

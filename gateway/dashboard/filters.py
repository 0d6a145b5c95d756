"""What a page is asked for in its address: range, buckets, zone, tenant. Days are UTC; the zone only names times."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request

from gateway.errors import InvalidRequest
from gateway.query import read_query

Width = Literal["hour", "day"]
WIDTHS: Mapping[Width, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
SINGLES = ("from", "to", "bucket", "zone", "tenant")
LONGEST = timedelta(days=93)
LONGEST_BY_HOUR = timedelta(days=4)
"""Longer ranges are shown by day: a page stays small, and its columns wide enough to be seen."""
RANGES = {"Today": 1, "7 days": 7, "30 days": 30, "90 days": 90}
ZONES = (
    *("UTC", "America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York", "America/Sao_Paulo"),
    *("Europe/London", "Europe/Berlin", "Europe/Helsinki", "Africa/Lagos", "Africa/Johannesburg", "Asia/Dubai"),
    *("Asia/Kolkata", "Asia/Singapore", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland"),
)
"""Offered; any name of the IANA database is taken."""


@dataclass(frozen=True, slots=True)
class Filters:
    first: date
    last: date
    """The last day that is shown."""
    width: Width
    zone: ZoneInfo
    tenant: str | None

    @property
    def start(self) -> datetime:
        return _midnight(self.first)

    @property
    def end(self) -> datetime:
        return _midnight(self.last) + timedelta(days=1)

    @property
    def bucket(self) -> timedelta:
        return WIDTHS[self.width]

    def query(self, **other: str) -> str:
        """This view's address, with some of it changed; without `from` and `to`, a view of today stays one."""
        told = {"from": f"{self.first}", "to": f"{self.last}", "bucket": self.width, "zone": self.zone.key}
        told |= {"tenant": self.tenant} if self.tenant else {}
        return "?" + urlencode(told | other)

    def ranges(self, today: date) -> list[tuple[str, str, bool]]:
        """Name, address, and whether it is the one shown."""
        return [self._range(name, today - timedelta(days=days - 1), today) for name, days in RANGES.items()]

    def _range(self, name: str, first: date, last: date) -> tuple[str, str, bool]:
        address = self.query(**{"from": f"{first}", "to": f"{last}", "bucket": "hour" if first == last else "day"})
        return name, address, (first, last) == (self.first, self.last)


def filters_of(request: Request, now: datetime) -> Filters:
    """Raises InvalidRequest."""
    query = read_query(_filled(request), SINGLES)
    last = _day("to", query.singles.get("to"), now.date())
    first = _day("from", query.singles.get("from"), last - timedelta(days=6))
    if not timedelta(0) <= last - first < LONGEST:
        raise InvalidRequest("Invalid from: at most 93 days are shown, and `to` is not before it.", "from")
    is_short = last - first < LONGEST_BY_HOUR
    asked = query.one_of("bucket", *WIDTHS)
    width: Width = "hour" if is_short and asked != "day" and (asked or first == last) else "day"
    return Filters(first, last, width, _zone(query.singles.get("zone")), query.singles.get("tenant"))


def zone_of(request: Request) -> ZoneInfo:
    """Of a page that is asked for nothing else."""
    return _zone(request.query_params.get("zone"))


def _filled(request: Request) -> list[tuple[str, str]]:
    """A form sends every field, also those that were left empty."""
    return [(name, value) for name, value in request.query_params.multi_items() if value]


def _day(name: str, text: str | None, default: date) -> date:
    if text is None:
        return default
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not date(1970, 1, 1) <= day <= date(9990, 1, 1):
        raise InvalidRequest(f"Invalid {name}: write a day, as 2026-03-01.", name)
    return day


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequest("Invalid zone: write a name as Europe/Berlin.", "zone") from error


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

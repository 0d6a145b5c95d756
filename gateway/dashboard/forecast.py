"""Where a month's budget will stand at the month's end, if it goes on as until now. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

LEAST_SEEN = timedelta(days=1)
"""Of a month: sooner nothing is foretold."""
WARNING = 0.8
Alarm = Literal["", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Forecast:
    at_end: int
    """What will have been used."""
    reached: datetime | None
    """When the limit will be, if within the month."""


def forecast(used: int, limit: int, now: datetime) -> Forecast | None:
    """None while the month is too young."""
    first, end = month_of(now)
    seen = now - first
    if seen < LEAST_SEEN:
        return None
    at_end = round(used * ((end - first) / seen))
    reached = first + seen * (limit / used) if used and at_end >= limit > used else None
    return Forecast(at_end, reached)


def alarm(used: int, limit: int) -> Alarm:
    """At 80 and at 100 %. A limit of 0 lets nothing pass, and is reached from the start."""
    part = used / limit if limit else 1.0
    return "bad" if part >= 1 else "warn" if part >= WARNING else ""


def month_of(now: datetime) -> tuple[datetime, datetime]:
    """Where it begins and ends, in UTC."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return first, (first + timedelta(days=32)).replace(day=1)

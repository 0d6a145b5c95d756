"""Figures as people read them: filters of the templates. Pure.

Numbers that are compared stay exact and have thousands apart; those that are glanced at are shortened.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

NONE = "–"
MINUS = "\N{MINUS SIGN}"
STEPS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k"))


def count(number: float | None) -> str:
    return NONE if number is None else _signed(number, f"{abs(number):,.0f}")


def short(number: float | None) -> str:
    """Three digits that matter."""
    if number is None:
        return NONE
    size = abs(number)
    for step, unit in STEPS:
        if size >= (step if unit == "k" else step * 0.9995):
            base = 1e3 if unit == "k" else step
            return _signed(number, f"{_three(size / base)} {unit}")
    return _signed(number, f"{size:,.0f}")


def mark(number: float) -> str:
    """A round number beside an axis."""
    if number < 100_000:
        return count(number)
    digits, _, unit = short(number).partition(" ")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {unit}"


def share(part: float | None, digits: int = 1) -> str:
    return NONE if part is None else _signed(part, f"{abs(part):.{digits}%}")


def seconds(time: float | None) -> str:
    """A latency: three digits that matter, in the unit that fits."""
    if time is None:
        return NONE
    size = abs(time)
    if size == 0:
        return "0 s"
    if size < 0.001:
        return _signed(time, f"{_three(size * 1e6)} µs")
    return _signed(
        time, f"{_three(size * 1e3)} ms" if size < 1 else duration(size) if size >= 100 else f"{_three(size)} s"
    )


def duration(time: float | None) -> str:
    """The two largest units."""
    if time is None:
        return NONE
    whole = round(abs(time))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next((index for index, (amount, _) in enumerate(parts) if amount), 3)
    told = [f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount]
    return _signed(time, " ".join(told) or "0 s")


def money(micros: int | None, currency: str) -> str:
    """Micro-units, to the cent; less than a cent is told whole."""
    if micros is None:
        return NONE
    digits = 6 if 0 < abs(micros) < 10_000 else 2
    return _signed(micros, f"{currency} {abs(micros) / 1e6:,.{digits}f}")


def moment(at: datetime | float, zone: tzinfo) -> str:
    return _in(at, zone).strftime("%-d %b %Y, %H:%M")


def day(at: datetime | float, zone: tzinfo) -> str:
    return _in(at, zone).strftime("%-d %b")


def hour(at: datetime | float, zone: tzinfo) -> str:
    return _in(at, zone).strftime("%-d %b, %H:%M")


def clock(at: datetime | float, zone: tzinfo) -> str:
    return _in(at, zone).strftime("%H:%M")


def told(value: object) -> str:
    """A setting's value."""
    if value is None:
        return "none"
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _in(at: datetime | float, zone: tzinfo) -> datetime:
    return at.astimezone(zone) if isinstance(at, datetime) else datetime.fromtimestamp(at, zone)


def _three(size: float) -> str:
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f}"


def _signed(number: float, told: str) -> str:
    return f"{MINUS}{told}" if number < 0 and any(digit in told for digit in "123456789") else told


FILTERS: Mapping[str, Callable[..., Any]] = {
    "count": count,
    "short": short,
    "share": share,
    "seconds": seconds,
    "duration": duration,
    "money": money,
    "moment": moment,
    "told": told,
}

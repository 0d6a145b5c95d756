"""Limits in OpenAI's words: `x-ratelimit-*` headers, and the two refusals.

429 rate_limit_exceeded   concurrency and rates: `retry-after` and `retry-after-ms` say when it would fit
429 insufficient_quota    a budget is used up: `x-should-retry: false`
"""

from collections.abc import Iterable, Sequence
from math import ceil

from gateway.errors import ApiError, QuotaExceeded, RateLimited
from storage.limits.values import BUDGETS, Dimension, Refusal, Standing

REQUESTS: tuple[Dimension, ...] = ("requests_per_minute",)
TOKENS: tuple[Dimension, ...] = ("input_tokens_per_minute", "output_tokens_per_minute")
NAMES: dict[Dimension, str] = {
    "concurrency": "requests at a time",
    "requests_per_minute": "requests a minute",
    "input_tokens_per_minute": "input tokens a minute",
    "output_tokens_per_minute": "output tokens a minute",
    "monthly_tokens": "tokens a month",
    "monthly_micros": "micro-units of cost a month",
}


def headers(standings: Sequence[Standing]) -> dict[str, str]:
    """Of all limits that apply, those nearest to their end."""
    told: dict[str, str] = {}
    for name, dimensions in (("requests", REQUESTS), ("tokens", TOKENS)):
        if nearest := _nearest(standing for standing in standings if standing.dimension in dimensions):
            told[f"x-ratelimit-limit-{name}"] = str(nearest.limit)
            told[f"x-ratelimit-remaining-{name}"] = str(nearest.remaining)
            told[f"x-ratelimit-reset-{name}"] = duration(nearest.resets_in)
    return told


def error(refusal: Refusal) -> ApiError:
    told = QuotaExceeded(_quota(refusal)) if refusal.dimension in BUDGETS else _limited(refusal)
    told.headers |= headers(refusal.standings)
    return told


def duration(seconds: float) -> str:
    """As OpenAI spells it: `17ms`, `7.66s`, `6m0s`."""
    millis = ceil(round(seconds * 1000, 3))
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    told = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + told


def _limited(refusal: Refusal) -> ApiError:
    if refusal.retry_after is None:
        error = RateLimited(f"{_reached(refusal)} {_too_large(refusal, 'limit')}")
        error.headers = {"x-should-retry": "false"}
        return error
    seconds = max(0.001, refusal.retry_after)
    error = RateLimited(f"{_reached(refusal)} Try again in {duration(seconds)}.", retry_after=ceil(seconds))
    error.headers["retry-after-ms"] = str(ceil(seconds * 1000))
    return error


def _quota(refusal: Refusal) -> str:
    if refusal.retry_after is None:
        return f"{_reached(refusal)} {_too_large(refusal, 'budget')}"
    return (
        f"{_reached(refusal)} The next month begins in {duration(refusal.retry_after)}; a limit can be raised before."
    )


def _too_large(refusal: Refusal, what: str) -> str:
    if refusal.limit == 0:
        return f"Nothing passes until the {what} is raised."
    return f"It alone is over the {what}: ask for less, or have the {what} raised."


def _reached(refusal: Refusal) -> str:
    name = NAMES[refusal.dimension]
    numbers = f"Limit {refusal.limit}, used {refusal.used}, requested up to {refusal.needed}."
    return f"Limit of the {refusal.subject.scope} reached: {name}. {numbers}"


def _nearest(standings: Iterable[Standing]) -> Standing | None:
    return min(standings, key=lambda standing: standing.remaining, default=None)

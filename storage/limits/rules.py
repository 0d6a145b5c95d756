"""What every store decides alike, as pure functions.

A rate counts what was charged in this second and the 60 before it, so a charge stands for 60 to 61 seconds and no
minute, wherever it begins, sees more than the limit. Budgets are of the calendar month in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import floor

from storage.limits.values import (
    DIMENSIONS,
    NOTHING,
    RATES,
    Amounts,
    Claim,
    Dimension,
    Refusal,
    Standing,
    Subject,
    Usage,
    Verdict,
)
from storage.money import Used

WINDOW = 60
CONCURRENCY_RETRY = 1.0
"""When a place becomes free is unknown; so long is worth waiting."""


def over(
    subjects: Sequence[Subject], needs: Amounts, usages: Sequence[Usage], dimensions: Iterable[Dimension] = DIMENSIONS
) -> tuple[int, Dimension] | None:
    """The first limit that `needs` would break: which subject's, and in what. What needs nothing breaks nothing."""
    for dimension in dimensions:
        if (need := needs.of(dimension)) <= 0:
            continue
        for index, (subject, usage) in enumerate(zip(subjects, usages, strict=True)):
            limit = subject.limits.of(dimension)
            if limit is not None and usage.amounts.of(dimension) + need > limit:
                return index, dimension
    return None


def refusal(
    subjects: Sequence[Subject],
    needs: Amounts,
    verdict: Verdict,
) -> Refusal:
    """Where a verdict is broken."""
    assert verdict.broken is not None
    index, dimension = verdict.broken
    subject, used, needed = subjects[index], verdict.usages[index].amounts.of(dimension), needs.of(dimension)
    limit = subject.limits.of(dimension)
    assert limit is not None
    retry_after = None if needed > limit else _wait(dimension, used + needed - limit, verdict)
    told = standings(subjects, verdict.usages, verdict.now)
    return Refusal(subject, dimension, limit, used, needed, retry_after, told)


def standings(subjects: Sequence[Subject], usages: Sequence[Usage], now: float) -> tuple[Standing, ...]:
    """How every limit of these subjects stands."""
    return tuple(
        Standing(subject, dimension, limit, usage.amounts.of(dimension), _reset(dimension, usage, now))
        for subject, usage in zip(subjects, usages, strict=True)
        for dimension in DIMENSIONS
        if (limit := subject.limits.of(dimension)) is not None
    )


def with_claim(claim: Claim, usages: Sequence[Usage], now: float) -> list[Usage]:
    """The usages once the claim is held."""
    needs, second = claim.needs, floor(now)
    return [Usage(usage.amounts + needs, second) for usage in usages]


def refund(claim: Claim, used: Used | None) -> Amounts:
    """By how much the rates were charged wrongly; a request that never ran gives itself back too."""
    ran = NOTHING if used is None else Amounts(1, 1, used.input_tokens, used.output_tokens)
    return ran - claim.needs


def month_of(now: float) -> str:
    at = datetime.fromtimestamp(now, UTC)
    return f"{at.year:04}-{at.month:02}"


def month_ends(now: float) -> float:
    at = datetime.fromtimestamp(now, UTC)
    year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


def _wait(dimension: Dimension, surplus: int, verdict: Verdict) -> float:
    if dimension == "concurrency":
        return CONCURRENCY_RETRY
    if dimension not in RATES:
        return month_ends(verdict.now) - verdict.now
    for second, amount in sorted(verdict.charges):
        surplus -= amount
        if surplus <= 0:
            return second + WINDOW + 1 - verdict.now
    return float(WINDOW + 1)


def _reset(dimension: Dimension, usage: Usage, now: float) -> float:
    if dimension in RATES:
        return 0.0 if usage.newest is None else max(0.0, usage.newest + WINDOW + 1 - now)
    return 0.0 if dimension == "concurrency" else month_ends(now) - now

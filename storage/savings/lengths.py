"""An alarm: verified speculation changes no law of the text, so both cohorts write answers of one length. Pure."""

import math
from dataclasses import dataclass

from storage.savings.matching import StrataSums
from storage.savings.sums import Sums, total

LEAST = 50
"""Requests in each cohort below which nothing is said: lengths are lopsided."""
ALARMING = 4.0
"""Standard errors: once in sixteen thousand looks at nothing."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean decoded tokens of a request, and how many standard errors lie between them (treated - control)."""

    treated: float
    controls: float
    errors: float

    @property
    def is_alarming(self) -> bool:
        return abs(self.errors) >= ALARMING


def compare_lengths(treated: StrataSums, controls: StrataSums) -> Lengths | None:
    """Both of one group: only then does chance alone divide them. None where there are too few."""
    mine, theirs = total(treated.values()), total(controls.values())
    if min(mine.requests, theirs.requests) < LEAST:
        return None
    difference = mine.tokens / mine.requests - theirs.tokens / theirs.requests
    error = math.sqrt(_variance_of_mean(mine) + _variance_of_mean(theirs))
    errors = difference / error if error else math.copysign(math.inf, difference) if difference else 0.0
    return Lengths(mine.tokens / mine.requests, theirs.tokens / theirs.requests, errors)


def _variance_of_mean(sums: Sums) -> float:
    mean = sums.tokens / sums.requests
    return max(0.0, sums.tokens_squared / sums.requests - mean * mean) / (sums.requests - 1)

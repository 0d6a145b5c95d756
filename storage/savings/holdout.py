"""Time saved, measured against the controls of the draw. Pure."""

from storage.savings.baseline import Baseline, baseline
from storage.savings.matching import StrataSums, matches
from storage.savings.missing import requests_missing
from storage.savings.sums import total
from storage.savings.values import Holdout, Interval, NotEnough

LEAST_EFFECTIVE = 20.0
"""Controls of equal weight for which a figure is given: about fifty of real lengths. The interval then holds with 93
to 97 %, and says something (`tests/storage/test_savings_coverage.py`)."""
LEAST_COVERED = 0.8


def estimate(treated: StrataSums, controls: StrataSums) -> Holdout | NotEnough:
    """What the treated were spared. The controls are of whole deployments, the treated of any group of theirs."""
    found = list(matches(treated, controls))
    base = baseline(found, controls) if found else Baseline(0.0, 1.0, 0, 0.0)
    compared = total(match.treated for match in found)
    covered = compared.tokens / max(1, total(treated.values()).tokens)
    if base.effective < LEAST_EFFECTIVE or covered < LEAST_COVERED:
        missing = requests_missing(treated, controls, LEAST_EFFECTIVE - base.effective, LEAST_COVERED)
        return NotEnough(base.controls, base.effective, covered, missing)
    return Holdout(
        requests=compared.requests,
        tokens=compared.tokens,
        covered=covered,
        decode_us=compared.micros,
        baseline_us=round(base.micros),
        controls=base.controls,
        baseline=Interval(round(base.micros / base.factor), round(base.micros * base.factor)),
        effective=base.effective,
    )


def lost_by_controls(treated: StrataSums, controls: StrataSums) -> int | None:
    """Microseconds that the controls took longer than they would have with speculation: the price of measuring.

    Both of one group; below zero where they were spared time. None where nothing speculated beside them.
    """
    found = list(matches(controls, treated))
    if not found:
        return None
    return round(sum(match.treated.micros - match.treated.tokens * match.controls.rate for match in found))

"""What requests would have taken without speculation, and how far that may be off. Pure.

    baseline = Σ over strata of  tokens × rate of its controls          (rate: a ratio of sums)

Its error is that of the rates, and that of these very requests, whose times would have scattered too. Both follow from
κ², the variance of one request's time per token around its stratum's rate, as a share. κ² is estimated twice and the
larger estimate holds:

    from squared residuals     right for every distribution, but too small among tens of controls as long as the rare
                               slow request is not among them
    from logarithms, e^s² - 1  steady among few, and right where times are log-normal

To both comes COARSE, since strata are coarse: within half an octave a tenant may still choose the busier moments. So
an interval never shrinks to nothing. The error is taken to be normal in the logarithm of the baseline: time is never
negative and its errors are lopsided. `tests/storage/test_savings_coverage.py` shows how often the interval holds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storage.savings.matching import Match, StrataSums
from storage.savings.stratum import Stratum
from storage.savings.student import student

COARSE = 0.01
WIDEST = math.log(1_000)
"""An interval that is wider to either side says nothing more by its width."""


@dataclass(frozen=True, slots=True)
class Baseline:
    micros: float
    factor: float
    """The interval that holds with 95 % is micros / factor … micros × factor."""
    controls: int
    effective: float
    """As many controls of equal weight would say as much: long answers, and strata that the treated fill more than
    the controls, weigh more than others."""


@dataclass(slots=True)
class _Weight:
    """How a stratum's controls enter the baseline: Σ (by_time × time), and less by Σ (by_tokens × tokens) around it."""

    by_time: float = 0.0
    by_tokens: float = 0.0


def baseline(found: Sequence[Match], controls: StrataSums) -> Baseline:
    weights = _weights(found)
    tokens = sum(match.treated.tokens for match in found)
    micros = sum(match.treated.tokens * match.controls.rate for match in found)
    used = sum(controls[stratum].requests for stratum in weights)
    freedom = max(1, used - len({match.cell for match in found}))
    spread = max(_of_residuals(weights, controls, used / freedom), _of_logarithms(found))
    itself = sum(match.controls.rate**2 * match.treated.tokens_squared for match in found)
    error = math.hypot(math.sqrt(spread * (_squares(weights, controls) + itself)) / micros, COARSE)
    equals = tokens**2 / sum(w.by_time**2 * controls[s].tokens_squared for s, w in weights.items())
    return Baseline(micros, math.exp(min(student(freedom) * error, WIDEST)), used, equals)


def _weights(found: Sequence[Match]) -> dict[Stratum, _Weight]:
    weights: dict[Stratum, _Weight] = {}
    for match in found:
        share = match.treated.tokens / match.controls.tokens
        for stratum in match.cell:
            weight = weights.setdefault(stratum, _Weight())
            weight.by_time += share
            weight.by_tokens += share * match.controls.rate
    return weights


def _squares(weights: dict[Stratum, _Weight], controls: StrataSums) -> float:
    """The baseline's variance by its controls where κ² is 1."""
    return sum(weight.by_tokens**2 * controls[stratum].tokens_squared for stratum, weight in weights.items())


def _of_residuals(weights: dict[Stratum, _Weight], controls: StrataSums, correction: float) -> float:
    squares = sum(w.by_time**2 * controls[s].residuals(w.by_tokens / w.by_time) for s, w in weights.items())
    return correction * squares / _squares(weights, controls)


def _of_logarithms(found: Sequence[Match]) -> float:
    cells = {match.cell: match.controls for match in found}.values()
    squares = sum(sums.logs_squared - sums.logs**2 / sums.requests for sums in cells)
    return math.expm1(squares / 1e6 / sum(sums.requests - 1 for sums in cells))

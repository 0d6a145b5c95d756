"""How often the interval of a measured saving holds, at the smallest number of controls for which one is given.

A run draws requests (`savings_world`) until a saving is first given for our tenant, and asks whether its interval holds
what those very requests would have taken. 2 % are controls. Seen with 2,000 runs each:

    times           held    truth below, above   controls (5 to 95 %)   half the interval, of the baseline
    log-normal 0.4  95.8 %  0.6 %, 3.6 %         54 (37 to 91)          21 %
    log-normal 0.8  96.2 %  0.3 %, 3.5 %         54 (37 to 91)          48 %

Coverage does not break below LEAST_EFFECTIVE (from 15 on it held 96 % of 264 runs at sigma 0.8): the minimum is where
half the interval is still less than half the baseline there, and a figure can be used. Seen besides, with 400 runs:
gamma times of the same variance 96.9 and 99.7 %; one in twenty five times slower, at sigma 0.4, 86 %.

What one would write first fails: the squared residuals alone held 87 and 86 % (tens of controls have not met the rare
slow request), a bootstrap's percentiles 88 and 86 %, one rate for all strata 37 % at 20,000 requests and 8 % at 60,000
(our tenant's busy hours against everybody's), where ours held 95 and 93 %.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from storage.savings.baseline import baseline
from storage.savings.holdout import estimate
from storage.savings.matching import StrataSums, matches
from storage.savings.stratum import Stratum
from storage.savings.sums import total
from storage.savings.values import Holdout, Interval
from tests.storage.savings_world import World, world

SIZES = [int(1_500 * 1.1**step) for step in range(16)]
MANY = 20_000
Method = Callable[[World, int], Interval]


@dataclass
class Coverage:
    runs: int = 0
    held: int = 0

    @property
    def share(self) -> float:
        return self.held / self.runs


def _estimate(w: World, size: int) -> Holdout | None:
    found = estimate(w.treated(size), w.controls(size))
    return found if isinstance(found, Holdout) else None


def _first_size(w: World) -> int | None:
    """The fewest requests for which a saving is given: a matter of counts alone."""
    low, high = 0, len(SIZES)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _estimate(w, SIZES[middle]) else (middle + 1, high)
    return SIZES[low] if low < len(SIZES) else None


def _coverage(runs: int, sigma: float, method: Method, fixed_size: int | None = None) -> Coverage:
    coverage = Coverage()
    for seed in range(runs):
        w = world(seed, fixed_size or SIZES[-1], sigma)
        size = fixed_size or _first_size(w)
        if size is None:
            continue
        cells = {match.stratum.cell for match in matches(w.treated(size), w.controls(size))}
        interval = method(w, size)
        coverage.runs += 1
        coverage.held += interval.low <= w.truth(size, cells) <= interval.high
    assert coverage.runs > 0.95 * runs
    return coverage


def _ours(w: World, size: int) -> Interval:
    found = _estimate(w, size)
    assert found is not None
    return found.baseline


def _one_rate_for_all(w: World, size: int) -> Interval:
    def merged(sums: StrataSums) -> StrataSums:
        return {Stratum("dep", 1, 0): total(sums.values())}

    controls = merged(w.controls(size))
    found = baseline(list(matches(merged(w.treated(size)), controls)), controls)
    return Interval(int(found.micros / found.factor), int(found.micros * found.factor))


def _percentile_bootstrap(w: World, size: int) -> Interval:
    rows = np.flatnonzero(w.is_control[:size])
    counts = np.random.default_rng(size).multinomial(len(rows), np.full(len(rows), 1 / len(rows)), 300)
    baselines = np.zeros(len(counts))
    for match in matches(w.treated(size), w.controls(size)):
        inside = np.isin(w.cell[rows], [stratum.cell for stratum in match.cell])
        tokens, micros = counts @ (w.tokens[rows] * inside), counts @ (w.without[rows] * inside)
        baselines += match.treated.tokens * np.where(tokens > 0, micros / np.maximum(tokens, 1), match.controls.rate)
    low, high = np.percentile(baselines, [2.5, 97.5])
    return Interval(int(low), int(high))


@pytest.mark.parametrize("sigma", [0.4, 0.8])
def test_the_interval_holds_as_often_as_it_says(sigma: float) -> None:
    assert 0.93 <= _coverage(150, sigma, _ours).share <= 0.97


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sigma", [0.4, 0.8])
def test_it_does_so_in_two_thousand_runs(sigma: float) -> None:
    coverage = _coverage(2_100, sigma, _ours)
    assert coverage.runs >= 2_000
    assert 0.93 <= coverage.share <= 0.97


def test_one_rate_for_all_strata_is_found_out() -> None:
    """The more requests, the surer it is of the wrong hours."""
    assert _coverage(60, 0.4, _one_rate_for_all, MANY).share < 0.6
    assert _coverage(60, 0.4, _ours, MANY).share >= 0.9


def test_a_percentile_bootstrap_is_found_out() -> None:
    assert _coverage(80, 0.8, _percentile_bootstrap).share < 0.9

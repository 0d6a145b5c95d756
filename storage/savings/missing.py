"""How many more requests it takes until there are controls enough, if they come as those before. Pure."""

import math
from collections import defaultdict

from storage.savings.matching import LEAST_IN_A_CELL, StrataSums, matches
from storage.savings.stratum import WIDTHS, Stratum
from storage.savings.sums import Sums, total

PER_EFFECTIVE = 2.5
"""Controls that weigh as much as one of equal weight, of real lengths."""


def requests_missing(treated: StrataSums, controls: StrataSums, effective: float, least_covered: float) -> int | None:
    """Of the deployment, until there are `effective` more and enough is covered. None where nothing is drawn."""
    drawn = (total(sums.values()) for sums in (treated, controls))
    rate = next((sums.holdout_ppm / sums.requests / 1_000_000 for sums in drawn if sums.holdout_ppm), None)
    if rate is None:
        return None
    more = max(effective * PER_EFFECTIVE, _to_cover(treated, controls, least_covered))
    return math.ceil(more / rate)


def _to_cover(treated: StrataSums, controls: StrataSums, least_covered: float) -> float:
    """Controls, of all loads, until the largest loads that have too few of them have enough."""
    every = total(treated.values())
    lacking = _lacking(treated, controls)
    covered = every.tokens - total(lacking.values()).tokens
    more = 0.0
    for load, sums in sorted(lacking.items(), key=lambda item: -item[1].tokens):
        if covered >= least_covered * every.tokens:
            break
        covered += sums.tokens
        have = total(c for stratum, c in controls.items() if stratum.coarser(WIDTHS[-1]) == load).requests
        more = max(more, (LEAST_IN_A_CELL - have) * every.requests / sums.requests)
    return more


def _lacking(treated: StrataSums, controls: StrataSums) -> dict[Stratum, Sums]:
    """By load, the treated that no cell covers."""
    found = {match.stratum for match in matches(treated, controls)}
    lacking: dict[Stratum, Sums] = defaultdict(Sums)
    for stratum, sums in treated.items():
        if stratum not in found:
            lacking[stratum.coarser(WIDTHS[-1])] += sums
    return dict(lacking)

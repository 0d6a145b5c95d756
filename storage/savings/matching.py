"""Which controls each stratum is compared with: its own, or those of the coarser cell that holds enough. Pure.

The choice looks at counts alone, never at a time, so it favours no result.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storage.savings.stratum import WIDTHS, Stratum
from storage.savings.sums import Sums, total

StrataSums = Mapping[Stratum, Sums]
LEAST_IN_A_CELL = 8
"""Controls: the ratio of fewer is itself off by some per cent."""


@dataclass(frozen=True, slots=True)
class Match:
    stratum: Stratum
    treated: Sums
    cell: tuple[Stratum, ...]
    """The strata whose controls it is compared with."""
    controls: Sums
    """Of all of them."""


def matches(treated: StrataSums, controls: StrataSums) -> Iterator[Match]:
    """Of the strata that have controls enough."""
    levels = [(width, _cells(controls, width)) for width in WIDTHS]
    for stratum, sums in sorted(treated.items()):
        for width, cells in levels:
            cell = cells.get(stratum.coarser(width))
            if cell is not None:
                yield Match(stratum, sums, *cell)
                break


def _cells(controls: StrataSums, width: int) -> dict[Stratum, tuple[tuple[Stratum, ...], Sums]]:
    """Those with controls enough: their strata, and the sums of these."""
    members: dict[Stratum, list[Stratum]] = defaultdict(list)
    for stratum in sorted(controls):
        members[stratum.coarser(width)].append(stratum)
    pooled = {cell: total(controls[stratum] for stratum in strata) for cell, strata in members.items()}
    return {cell: (tuple(members[cell]), sums) for cell, sums in pooled.items() if sums.requests >= LEAST_IN_A_CELL}

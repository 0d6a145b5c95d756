"""Which controls each stratum is compared with: its own, or those of the coarser cell that holds enough. Pure.

The choice looks at counts alone, never at a time, so it favours no result.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from storage.savings.stratum import WIDTHS, Stratum
from storage.savings.sums import Sums, total

StrataSums = Mapping[Stratum, Sums]
Cells = Mapping[Stratum, tuple[tuple[Stratum, ...], Sums]]
"""Cell → its strata, and the sums of these."""
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


class Controls(dict[Stratum, Sums]):
    """Controls by stratum. What many groups are compared with is put into cells once."""

    @cached_property
    def levels(self) -> list[tuple[int, Cells]]:
        """Finest first; a cell is there where it has controls enough."""
        return [(width, _cells(self, width)) for width in WIDTHS]


def matches(treated: StrataSums, controls: StrataSums) -> Iterator[Match]:
    """Of the strata that have controls enough."""
    levels = (controls if isinstance(controls, Controls) else Controls(controls)).levels
    for stratum, sums in sorted(treated.items()):
        for width, cells in levels:
            cell = cells.get(stratum.coarser(width))
            if cell is not None:
                yield Match(stratum, sums, *cell)
                break


def _cells(controls: StrataSums, width: int) -> Cells:
    members: dict[Stratum, list[Stratum]] = defaultdict(list)
    for stratum in sorted(controls):
        members[stratum.coarser(width)].append(stratum)
    pooled = {cell: total(controls[stratum] for stratum in strata) for cell, strata in members.items()}
    return {cell: (tuple(members[cell]), sums) for cell, sums in pooled.items() if sums.requests >= LEAST_IN_A_CELL}

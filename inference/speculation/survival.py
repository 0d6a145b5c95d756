"""How likely a drafted token is kept, by its place in the draft, learnt from how earlier proposals fared.

    place    0   1   2–3   4–7   8–15   16–31   32 …
    h        the chance to be kept, given that everything before it was
    E(k)     expected kept of k drafted  =  h₀ + h₀h₁ + … + h₀h₁…h₍ₖ₋₁₎

Old proposals fade: nothing is for ever. Knows no proposer.
"""

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import mul

WIDTHS = (1, 1, 2, 4, 8, 16, 992)
"""Positions in each place."""
STARTS = (0, 1, 2, 4, 8, 16, 32)
FADE = 0.9
"""What is left of an observation after each later one."""
WEIGHT = 2.0
"""How many observations the prior counts for."""


def spread(length: int) -> list[int]:
    """How many of the first `length` positions lie in each place."""
    return [max(0, min(length - start, width)) for start, width in zip(STARTS, WIDTHS, strict=True)]


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading items are equal."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Survival:
    """Counts of proposed tokens reached and kept, by place."""

    def __init__(self, prior: tuple[float, float]) -> None:
        """`prior`: the chance of the first token, and of each later one, before anything is known."""
        first, later = prior
        self._prior = (first, *[later] * (len(WIDTHS) - 1))
        self._reached = [0.0] * len(WIDTHS)
        self._kept = [0.0] * len(WIDTHS)

    def observe(self, proposed: Sequence[int], emitted: Sequence[int]) -> bool:
        """`emitted` came where `proposed` was expected; what lies beyond it is not known.

        Says whether the proposal was right as far as that goes.
        """
        kept = common(proposed, emitted)
        reached = min(kept + 1, len(proposed), len(emitted))
        for place, (more, good) in enumerate(zip(spread(reached), spread(kept), strict=True)):
            if more:
                self._reached[place] = self._reached[place] * FADE + more
                self._kept[place] = self._kept[place] * FADE + good
        return kept == reached

    def expected(self, length: int) -> list[float]:
        """E(0), E(1), … E(length)."""
        counts = zip(self._kept, self._reached, self._prior, spread(length), strict=True)
        chances = (
            repeat((kept + WEIGHT * prior) / (reached + WEIGHT), times) for kept, reached, prior, times in counts
        )
        all_kept = accumulate(chain.from_iterable(chances), mul)
        return list(accumulate(all_kept, initial=0.0))

"""How likely a drafted token is kept, by its place in the draft, learnt from how earlier proposals fared.

    place    0   1   2–3   4–7   8–15   16–31   32 …
    h        the chance to be kept, given that everything before it was
    E(k)     expected kept of k drafted  =  h₀ + h₀h₁ + … + h₀h₁…h₍ₖ₋₁₎

Old proposals fade: nothing is for ever. Knows no proposer.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

PLACES = 7
FADE = 0.9
"""What is left of an observation after each later one."""
WEIGHT = 2.0
"""How many observations the prior counts for."""


def place(position: int) -> int:
    """0, 1, 2–3, 4–7, …: the bit length, capped."""
    return min(position.bit_length(), PLACES - 1)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading items are equal."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Survival:
    """Counts of proposed tokens reached and kept, by place."""

    def __init__(self, prior: tuple[float, float]) -> None:
        """`prior`: the chance of the first token, and of each later one, before anything is known."""
        first, later = prior
        self._prior = (first, *[later] * (PLACES - 1))
        self._reached = [0.0] * PLACES
        self._kept = [0.0] * PLACES

    def observe(self, proposed: Sequence[int], emitted: Sequence[int]) -> bool:
        """`emitted` came where `proposed` was expected; what lies beyond it is not known.

        Says whether the proposal was right as far as that goes.
        """
        kept = common(proposed, emitted)
        reached = min(kept + 1, len(proposed), len(emitted))
        for p in range(place(reached - 1) + 1 if reached else 0):
            self._reached[p] *= FADE
            self._kept[p] *= FADE
        for position in range(reached):
            self._reached[place(position)] += 1.0
            self._kept[place(position)] += position < kept
        return kept == reached

    def expected(self, length: int) -> list[float]:
        """E(0), E(1), … E(length)."""
        chances = [
            (kept + WEIGHT * prior) / (reached + WEIGHT)
            for kept, reached, prior in zip(self._kept, self._reached, self._prior, strict=True)
        ]
        all_kept = accumulate((chances[place(i)] for i in range(length)), mul)
        return list(accumulate(all_kept, initial=0.0))

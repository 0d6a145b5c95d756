"""What a forward pass costs by its rows, as measured on this machine under this load.

    rows     1    2    4    8   16 …          one bucket each; a pass counts in the widest bucket it fills
    seconds  m₁ ≤ m₂ ≤ m₄ ≤ m₈ ≤ m₁₆ …        medians of the latest passes, made non-decreasing, straight between

Knows only numbers. What was not measured is not guessed: `seconds` then says None.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median

BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
WINDOW = 15
"""Passes remembered a bucket: enough that one hiccup moves no median, few enough to follow the load."""


def non_decreasing(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """The nearest non-decreasing sequence in the least-squares sense (pool adjacent violators)."""
    pools: list[tuple[float, int, int]] = []  # (mean, weight, length)
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (m2, w2, n2), (m1, w1, n1) = pools.pop(), pools.pop()
            pools.append(((m1 * w1 + m2 * w2) / (w1 + w2), w1 + w2, n1 + n2))
    return [mean for mean, _, length in pools for _ in range(length)]


class PassCost:
    """An online, robust estimate. One engine has one, and every pass is shown to it."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[int, float]]] = {}
        self._rows: list[float] = []
        self._seconds: list[float] = []
        self._fresh = True

    def observe(self, rows: int, seconds: float) -> None:
        """A pass of `rows` rows took `seconds`."""
        if rows < 1 or not 0.0 < seconds < float("inf"):
            return
        bucket = bisect_right(BUCKETS, rows) - 1
        self._seen.setdefault(bucket, deque(maxlen=WINDOW)).append((rows, seconds))
        self._fresh = False

    def seconds(self, rows: int) -> float | None:
        """What a pass of `rows` rows takes; None outside of what was measured."""
        if not self._fresh:
            self._fit()
        if not self._rows or not self._rows[0] <= rows <= self._rows[-1]:
            return None
        right = bisect_left(self._rows, rows)
        if self._rows[right] == rows:
            return self._seconds[right]
        x0, x1, y0, y1 = *self._rows[right - 1 : right + 1], *self._seconds[right - 1 : right + 1]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)

    def _fit(self) -> None:
        measured = [self._seen[bucket] for bucket in sorted(self._seen)]
        self._rows = [fmean(rows for rows, _ in passes) for passes in measured]
        medians = [median(seconds for _, seconds in passes) for passes in measured]
        self._seconds = non_decreasing(medians, [len(passes) for passes in measured])
        self._fresh = True

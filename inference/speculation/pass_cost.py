"""What a forward pass costs by its rows, as measured on this machine under this load.

    rows     1    2    3    4    6    8 …     one bucket each; a pass counts in the widest bucket it fills
    seconds  m₁ ≤ m₂ ≤ m₃ ≤ m₄ ≤ m₆ ≤ m₈ …    low quartiles of the latest passes, made non-decreasing, straight between

Whatever else the machine does can only make a pass slower, so the low end of what was seen says best what rows cost.
Knows only numbers. What was not measured lately is not guessed: `seconds` then says None.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
WINDOW = 15
"""Passes remembered a bucket: enough that one hiccup moves no median, few enough to follow the load."""
ENOUGH = 2
"""Passes that make a bucket measured."""
STALE = 1000
"""Passes after which a bucket that saw none is forgotten, so that it is measured again."""


@dataclass(slots=True)
class Bucket:
    """The latest passes of about as many rows."""

    passes: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    rows: float = 0.0
    seconds: float = 0.0
    seen: int = 0

    def add(self, rows: int, seconds: float, now: int) -> None:
        self.passes.append((rows, seconds))
        self.rows = fmean(rows for rows, _ in self.passes)
        self.seconds = low_quartile([seconds for _, seconds in self.passes])
        self.seen = now


def low_quartile(values: Sequence[float]) -> float:
    """The least of up to four, the second least of up to eight, …"""
    return sorted(values)[(len(values) - 1) // 4]


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
        self._buckets: dict[int, Bucket] = {}
        self._passes = 0
        self._rows: list[float] = []
        self._seconds: list[float] = []
        self._is_fitted = True

    @property
    def is_measured(self) -> bool:
        """Whether anything is known at all."""
        self._fit()
        return bool(self._rows)

    def observe(self, rows: int, seconds: float) -> None:
        """A pass of `rows` rows took `seconds`."""
        if rows < 1 or not 0.0 < seconds < float("inf"):
            return
        self._passes += 1
        self._buckets.setdefault(bisect_right(BUCKETS, rows), Bucket()).add(rows, seconds, self._passes)
        self._is_fitted = False

    def seconds(self, rows: int) -> float | None:
        """What a pass of `rows` rows takes; None outside of what was measured."""
        self._fit()
        if not self._rows or not self._rows[0] <= rows <= self._rows[-1]:
            return None
        return self.nearest(rows)

    def nearest(self, rows: int) -> float:
        """The same, or that of the nearest measured number of rows; 1 while there is none (for comparing only)."""
        self._fit()
        if not self._rows:
            return 1.0
        right = bisect_left(self._rows, rows)
        if right in (0, len(self._rows)):
            return self._seconds[0 if right == 0 else -1]
        x0, x1, y0, y1 = *self._rows[right - 1 : right + 1], *self._seconds[right - 1 : right + 1]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)

    def _fit(self) -> None:
        if self._is_fitted:
            return
        self._buckets = {b: bucket for b, bucket in self._buckets.items() if self._passes - bucket.seen < STALE}
        measured = [self._buckets[b] for b in sorted(self._buckets) if len(self._buckets[b].passes) >= ENOUGH]
        self._rows = [bucket.rows for bucket in measured]
        self._seconds = non_decreasing([b.seconds for b in measured], [len(b.passes) for b in measured])
        self._is_fitted = True

"""How durations are spread, in fixed logarithmic buckets of whole counts. Pure.

    bucket 0: 0     bucket n: [1.1ⁿ⁻¹, 1.1ⁿ) microseconds     the last one, from nine hours, has no end

The same bounds everywhere and for ever, worked out in integers: histograms of any rows, hours and tenants add up, and
a percentile read from them is at most 5 % off.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NUM_BUCKETS = 256
BOUNDS = tuple(-(-(11**n) // 10**n) for n in range(NUM_BUCKETS - 1))
"""Where buckets 1, 2 … begin: the smallest whole number of microseconds that is in them or above."""


def bucket_of(micros: int) -> int:
    return bisect_right(BOUNDS, micros)


@dataclass(frozen=True, slots=True)
class Histogram:
    counts: Mapping[int, int] = field(default_factory=dict)
    """Bucket → how many fell into it; empty buckets are left out."""

    @classmethod
    def of(cls, micros: Iterable[int]) -> "Histogram":
        return cls(Counter(map(bucket_of, micros)))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(Counter(self.counts) + Counter(other.counts))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> int | None:
        """Microseconds that `percent` of all do not exceed (nearest rank), within 5 %; None of nothing."""
        left = max(1, -(-self.total * percent // 100))
        for bucket in sorted(self.counts):
            left -= self.counts[bucket]
            if left <= 0:
                return _middle(bucket)
        return None


def _middle(bucket: int) -> int:
    """Equally wrong, in proportion, at either end: 2ab / (a + b) of the bounds a and b = 1.1 a."""
    return round(1.1 ** (bucket - 1) * 2.2 / 2.1) if bucket else 0

"""An axis that begins at 0 and has a few round marks."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10

STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across, and what stands beside it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """`most` is the last mark; `length` is how long the axis is drawn."""

    most: float
    step: float
    length: float

    def size(self, value: float) -> float:
        return round(value / self.most * self.length, 2)

    def marks(self, told: Callable[[float], str]) -> list[Mark]:
        """From 0 to `most`."""
        return [Mark(self.size(self.step * i), told(self.step * i)) for i in range(round(self.most / self.step) + 1)]


def scale(most: float, length: float, parts: int = 4) -> Scale:
    """Up to a round number that is not under `most`, in at most `parts` steps of round size."""
    if most <= 0:
        return Scale(1.0, 1.0, length)
    rough = most / parts
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in STEPS if factor * power >= rough * (1 - 1e-9))
    return Scale(step * ceil(most / step - 1e-9), step, length)

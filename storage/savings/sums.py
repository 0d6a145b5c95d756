"""What a stratum's requests add up to: integers, so that hours add to days and a rebuild gives the same bytes.

No request over MOST_TOKENS or LONGEST is compared, and squares are kept of whole milliseconds: a row holds half a
million requests of that length before it leaves 64 bits, and then stays at the last number that fits.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

MOST_TOKENS = 2**22
LONGEST = 2**22 * 1000
"""Microseconds: 70 minutes."""
LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sums:
    requests: int = 0
    holdout_ppm: int = 0
    """How likely each was a control."""
    tokens: int = 0
    """Decoded: emitted after each choice's first."""
    micros: int = 0
    """Time to decode them."""
    tokens_squared: int = 0
    tokens_millis: int = 0
    millis_squared: int = 0
    logs: int = 0
    """Natural logarithm of microseconds a token, in thousandths."""
    logs_squared: int = 0

    @classmethod
    def of(cls, tokens: int, micros: int, holdout_ppm: int) -> "Sums":
        """One request's."""
        millis = (micros + 500) // 1000
        log = round(1000 * math.log(micros / tokens))
        return cls(1, holdout_ppm, tokens, micros, tokens * tokens, tokens * millis, millis * millis, log, log * log)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(min(mine + theirs, LAST) for mine, theirs in zip(self.members, other.members, strict=True)))

    @property
    def members(self) -> tuple[int, ...]:
        """By NAMES."""
        found: tuple[int, ...] = _members(self)
        return found

    @property
    def rate(self) -> float:
        """Microseconds a token: a ratio of sums, so that each token counts once."""
        return self.micros / self.tokens

    def residuals(self, rate: float) -> float:
        """Σ (time - rate × tokens)², in square microseconds."""
        squares = self.millis_squared * 1e6 - 2 * rate * self.tokens_millis * 1e3 + rate * rate * self.tokens_squared
        return max(0.0, squares)


NAMES = tuple(field.name for field in fields(Sums))
_members = attrgetter(*NAMES)


def total(sums: Iterable[Sums]) -> Sums:
    """As adding them one by one, faster."""
    columns = zip(*(one.members for one in sums), strict=True)
    return Sums(*(min(sum(column), LAST) for column in columns))

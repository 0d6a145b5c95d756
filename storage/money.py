"""Money: whole micro-units at prices for a million tokens; each line of a bill is rounded once, half to even.

The items of a bill share no token: what was cached is not also input, what was rejected is not also output.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

PER = 1_000_000
"""Prices are micro-units for so many tokens."""
Item = Literal["input", "cached", "output", "rejected"]
ITEMS: tuple[Item, ...] = get_args(Item)


def cost(tokens_times_price: int) -> int:
    """In micro-units, half to even."""
    whole, rest = divmod(tokens_times_price, PER)
    return whole + (2 * rest > PER or (2 * rest == PER and whole % 2 == 1))


@dataclass(frozen=True, slots=True)
class Used:
    """What requests came to. Cached tokens are part of the input, rejected prediction tokens of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    rejected_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def of(self, item: Item) -> int:
        match item:
            case "input":
                return self.input_tokens - self.cached_tokens
            case "cached":
                return self.cached_tokens
            case "output":
                return self.output_tokens - self.rejected_tokens
            case "rejected":
                return self.rejected_tokens


@dataclass(frozen=True, slots=True)
class Line:
    item: Item
    tokens: int
    price: int
    micros: int


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-units for a million tokens."""

    input: int = 0
    cached: int = 0
    output: int = 0
    rejected: int = 0

    def of(self, item: Item) -> int:
        price: int = getattr(self, item)
        return price

    def lines(self, used: Used) -> tuple[Line, ...]:
        """A bill's lines: one for each item that has tokens."""
        items = [(item, used.of(item), self.of(item)) for item in ITEMS if used.of(item)]
        return tuple(Line(item, tokens, price, cost(tokens * price)) for item, tokens, price in items)

    def cost(self, used: Used) -> int:
        """Of one request, rounded once: what is held of budgets and spent."""
        return cost(sum(used.of(item) * self.of(item) for item in ITEMS))

    def most(self, used: Used) -> int:
        """What it costs at most, however much of it is cached or rejected."""
        if self == FREE:
            return 0
        dearest = Price(max(self.input, self.cached), self.cached, max(self.output, self.rejected), self.rejected)
        return dearest.cost(Used(used.input_tokens, used.output_tokens))


FREE = Price()


def total(lines: Iterable[Line]) -> int:
    return sum(line.micros for line in lines)

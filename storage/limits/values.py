"""What limits are spoken of in: who is limited in what, what a request claims, and what it was answered.

Amounts are integers. Times are unix seconds of the store's clock. What each request makes a dozen of is a named tuple:
a frozen dataclass takes five times as long to make.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from storage.money import FREE, Price, Used

Scope = Literal["tenant", "project", "key"]
Rate = Literal["requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute"]
Budget = Literal["monthly_tokens", "monthly_micros"]
Dimension = Literal["concurrency"] | Rate | Budget

RATES: tuple[Rate, ...] = get_args(Rate)
BUDGETS: tuple[Budget, ...] = get_args(Budget)
TRAFFIC: tuple[Dimension, ...] = ("concurrency", *RATES)
DIMENSIONS: tuple[Dimension, ...] = (*TRAFFIC, *BUDGETS)
"""In the order in which they refuse."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit. 0: nothing passes."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    monthly_tokens: int | None = None
    monthly_micros: int | None = None

    def of(self, dimension: Dimension) -> int | None:
        limit: int | None = getattr(self, dimension)
        return limit

    def limits_any(self, *dimensions: Dimension) -> bool:
        for dimension in dimensions:  # noqa: SIM110 - many times a request
            if getattr(self, dimension) is not None:
                return True
        return False

    def share(self, parts: int) -> "Limits":
        """What one of so many gateways may let pass alone: at least 1 of what is not 0; budgets are not shared out."""
        shares = {d: None if (limit := self.of(d)) is None else limit and max(1, limit // parts) for d in TRAFFIC}
        return replace(self, **shares)

    def rest(self, charged: "Amounts", parts: int) -> "Limits":
        """One gateway's share of what the rates leave."""
        limited = {rate: limit for rate in RATES if (limit := self.of(rate)) is not None}
        return Limits(**{rate: max(0, limit - charged.of(rate)) // parts for rate, limit in limited.items()})


class Amounts(NamedTuple):
    """So much in each dimension: what is in use, or what a claim adds."""

    concurrency: int = 0
    requests_per_minute: int = 0
    input_tokens_per_minute: int = 0
    output_tokens_per_minute: int = 0
    monthly_tokens: int = 0
    monthly_micros: int = 0

    def of(self, dimension: Dimension) -> int:
        amount: int = getattr(self, dimension)
        return amount

    def __add__(self, other: "Amounts") -> "Amounts":  # type: ignore[override]
        return Amounts(
            self.concurrency + other.concurrency,
            self.requests_per_minute + other.requests_per_minute,
            self.input_tokens_per_minute + other.input_tokens_per_minute,
            self.output_tokens_per_minute + other.output_tokens_per_minute,
            self.monthly_tokens + other.monthly_tokens,
            self.monthly_micros + other.monthly_micros,
        )

    def __neg__(self) -> "Amounts":
        return Amounts(*[-amount for amount in self])

    def __sub__(self, other: "Amounts") -> "Amounts":
        return self + -other


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the levels that all apply to a request."""

    scope: Scope
    id: str
    limits: Limits = Limits()

    @property
    def name(self) -> str:
        return f"{self.scope}:{self.id}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request may come to, at most."""

    id: str
    owner: str
    """The gateway process that runs it."""
    subjects: tuple[Subject, ...]
    """Outermost first."""
    input_tokens: int
    output_tokens: int
    price: Price = FREE

    @property
    def needs(self) -> Amounts:
        most = Used(self.input_tokens, self.output_tokens)
        return Amounts(1, 1, most.input_tokens, most.output_tokens, most.tokens, self.price.most(most))

    def covers(self, input_tokens: int, output_tokens: int) -> bool:
        return input_tokens <= self.input_tokens and output_tokens <= self.output_tokens

    def limited_in(self, *dimensions: Dimension) -> Iterator[Subject]:
        """Only these have rows: who has no limit is not counted."""
        return (subject for subject in self.subjects if subject.limits.limits_any(*dimensions))


class Usage(NamedTuple):
    """What one subject has in use."""

    amounts: Amounts = Amounts()
    newest: int | None = None
    """The second of the last charge that still counts against its rates."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a store found. `broken`: the subject's index and the dimension that refuse; None where it is done."""

    now: float
    usages: list[Usage]
    """Before the claim."""
    broken: tuple[int, Dimension] | None = None
    charges: Sequence[tuple[int, int]] = ()
    """(second, amount) that count against what is broken, where that is a rate."""


class Standing(NamedTuple):
    """How one limit stands."""

    subject: Subject
    dimension: Dimension
    limit: int
    used: int
    resets_in: float
    """Seconds until nothing of it is used any more, if nothing more is asked."""

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A claim that is held."""

    claim: Claim
    at: float
    """When it was charged: corrections go to that second's count, and to that month's budget."""
    standings: tuple[Standing, ...] = field(default=(), compare=False)

    @property
    def second(self) -> int:
        return int(self.at)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What stood in the way. Nothing was changed."""

    subject: Subject
    dimension: Dimension
    limit: int
    used: int
    needed: int
    retry_after: float | None
    """Seconds; None where no waiting helps, because the request alone is over the limit."""
    standings: tuple[Standing, ...] = field(default=(), compare=False)

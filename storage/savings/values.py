"""What is said of time saved: measured against controls, modelled, or that there is not enough to say. Frozen.

    saved = what the covered requests would have taken without speculation - what they took

«Without» means: with speculation off for this request, at the load of that time. Times are whole microseconds of
decoding, summed over requests; a saving below zero is time lost, and stays below zero.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a figure lies with 95 %."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Compared:
    """Requests with speculation, beside what they would have taken without it."""

    requests: int
    """Those that speculated and are covered, as are the tokens and times."""
    tokens: int
    """Decoded."""
    covered: float
    """Their share of the tokens asked for; the rest has no controls of its load."""
    decode_us: int
    baseline_us: int
    controls: int
    """Requests without speculation that the baseline comes from."""

    @property
    def saved_us(self) -> int:
        return self.baseline_us - self.decode_us

    @property
    def with_us_per_token(self) -> float:
        return self.decode_us / self.tokens

    @property
    def without_us_per_token(self) -> float:
        return self.baseline_us / self.tokens


@dataclass(frozen=True, slots=True)
class Holdout(Compared):
    """Measured: the controls were drawn by chance among the same requests."""

    baseline: Interval
    effective: float
    """As many controls of equal weight would say as much."""
    method = "holdout"
    scope = "deployment"
    """The controls are of all tenants of the deployment and drafter version: time without speculation depends on
    machine, load and context, not on whose text it is."""

    @property
    def saved(self) -> Interval:
        return Interval(self.baseline.low - self.decode_us, self.baseline.high - self.decode_us)


@dataclass(frozen=True, slots=True)
class Modelled(Compared):
    """Guessed from controls of other requests: what was asked for took no part in the draw, or is too little.

    How well the guess does is told by the controls themselves: each half is guessed from the other. No interval, and
    never added to what is measured.
    """

    error_of_one: float
    """Root mean square error of one request's time, as a share of the mean."""
    error_of_all: float
    """Of all their times together, as a share; above zero where the guess is too long."""
    method = "modelled"
    scope = "deployment"


@dataclass(frozen=True, slots=True)
class NotEnough:
    """No figure, since there are too few controls."""

    controls: int
    effective: float
    covered: float
    missing: int | None
    """About how many more requests it takes, at the rate of the draw; None where nothing is drawn."""
    method = "not_enough_data"


Estimate = Holdout | Modelled | NotEnough

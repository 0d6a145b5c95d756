"""Time saved where nothing was drawn, or too little: guessed from what controls of other requests took. Pure."""

import math
from dataclasses import dataclass
from functools import cached_property

from storage.savings.holdout import LEAST_COVERED
from storage.savings.matching import Controls, StrataSums, matches
from storage.savings.missing import requests_missing
from storage.savings.sums import Sums, total
from storage.savings.values import Modelled, NotEnough


@dataclass(frozen=True)
class Halves:
    """Controls, split by a hash of their request's id."""

    first: StrataSums
    second: StrataSums

    @cached_property
    def whole(self) -> Controls:
        both = {**self.first, **self.second}
        return Controls({s: self.first.get(s, Sums()) + self.second.get(s, Sums()) for s in both})

    @cached_property
    def errors(self) -> tuple[float, float] | None:
        """Of one, and of all, where each half is guessed from the other; None where neither has enough to say."""
        pairs = ((self.first, self.second), (self.second, self.first))
        guesses = [(m.treated, m.controls.rate) for guessed, known in pairs for m in matches(guessed, known)]
        if not guesses:
            return None
        itself = total(sums for sums, _ in guesses)
        squares = sum(sums.residuals(rate) for sums, rate in guesses)
        guess = sum(sums.tokens * rate for sums, rate in guesses)
        return math.sqrt(squares * itself.requests) / itself.micros, guess / itself.micros - 1


def model(asked: StrataSums, halves: Halves) -> Modelled | NotEnough:
    """What `asked` were spared, if they would have taken what controls of their strata took."""
    controls, errors = halves.whole, halves.errors
    found = list(matches(asked, controls))
    compared = total(match.treated for match in found)
    used = {stratum for match in found for stratum in match.cell}
    num_controls = total(controls[stratum] for stratum in used).requests
    covered = compared.tokens / max(1, total(asked.values()).tokens)
    if covered < LEAST_COVERED or errors is None:
        return NotEnough(num_controls, 0.0, covered, requests_missing(asked, controls, 0.0, LEAST_COVERED))
    return Modelled(
        requests=compared.requests,
        tokens=compared.tokens,
        covered=covered,
        decode_us=compared.micros,
        baseline_us=round(sum(match.treated.tokens * match.controls.rate for match in found)),
        controls=num_controls,
        error_of_one=errors[0],
        error_of_all=errors[1],
    )

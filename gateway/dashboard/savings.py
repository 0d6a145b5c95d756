"""Time saved, in the words of a card: what is measured, what is only modelled, or how much is missing. Pure."""

from dataclasses import dataclass, replace

from gateway.dashboard.words import count, duration, share
from storage.savings.cohorts import Saving
from storage.savings.values import Estimate, Holdout, Modelled, NotEnough


@dataclass(frozen=True, slots=True)
class Card:
    figure: str
    """Empty where there is none to give."""
    range: str
    note: str


def card(saving: Saving) -> Card:
    told = _of(saving.drawn)
    if not isinstance(saving.undrawn, Modelled):
        return told
    others = f"Outside the draw about {duration(saving.undrawn.saved_us / 1e6)} more, modelled."
    return replace(told, note=f"{told.note} {others}")


def _of(estimate: Estimate) -> Card:
    match estimate:
        case Holdout():
            low, high = (duration(end / 1e6) for end in (estimate.saved.low, estimate.saved.high))
            note = f"Measured on {count(estimate.controls)} controls.{_reach(estimate.covered)}"
            return Card(duration(estimate.saved_us / 1e6), f"{low} to {high}", note)
        case Modelled():
            told = f"Modelled from {count(estimate.controls)} other requests, not measured"
            note = f"{told}; a request's time is {share(estimate.error_of_one, 0)} off."
            return Card(duration(estimate.saved_us / 1e6), "no interval", note)
        case NotEnough():
            return Card("", "", _missing(estimate))


def _missing(estimate: NotEnough) -> str:
    if estimate.missing is None:
        return "No requests are held out, so time saved cannot be measured."
    return f"About {count(estimate.missing)} more requests are missing; there are {count(estimate.controls)} controls."


def _reach(covered: float) -> str:
    return "" if covered > 0.995 else f" For {share(covered, 0)} of the tokens."

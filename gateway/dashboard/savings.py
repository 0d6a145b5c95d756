"""Time saved, in the words of a card: what is measured, what is only modelled, or how much is missing. Pure."""

from dataclasses import dataclass

from gateway.dashboard.words import count, duration, share
from gateway.reports.figures import Object


@dataclass(frozen=True, slots=True)
class Card:
    figure: str
    """Empty where there is none to give."""
    range: str
    note: str


def card(savings: Object) -> Card:
    """Of a report's `savings`. What was not drawn is told apart: it is modelled at best, and never added."""
    figure, range, note = _of(savings)
    others = savings["undrawn"]
    if others["saved_us"] is not None:
        note += f" Outside the draw about {_duration(others['saved_us'])} more, modelled."
    return Card(figure, range, note)


def _of(savings: Object) -> tuple[str, str, str]:
    controls = count(savings["num_controls"])
    match savings["method"]:
        case "holdout":
            covered = savings["covered_tokens"]
            reach = "" if covered > 0.995 else f" For {share(covered, 0)} of the tokens."
            low, high = _duration(savings["ci95_low_us"]), _duration(savings["ci95_high_us"])
            return _duration(savings["saved_us"]), f"{low} to {high}", f"Measured on {controls} controls.{reach}"
        case "modelled":
            told = f"Modelled from {controls} other requests, not measured"
            note = f"{told}; a request's time is {share(savings['error_of_one'], 0)} off."
            return _duration(savings["saved_us"]), "no interval", note
        case _:
            return "", "", _missing(savings["missing_requests"], controls)


def _missing(missing: int | None, controls: str) -> str:
    if missing is None:
        return "No request of this time took part in the holdout, so time saved cannot be measured."
    return f"About {count(missing)} more requests are missing; {controls} controls can be compared so far."


def _duration(micros: int) -> str:
    return duration(micros / 1e6)

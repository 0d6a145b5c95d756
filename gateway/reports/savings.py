"""Time saved as a report tells it: an estimate with its method and interval, or how much is missing for one. Pure.

Microseconds of decoding; below zero is time lost. What was measured (`method: holdout`) and what was guessed
(`modelled`) are never added.
"""

import math
from dataclasses import asdict, fields

from gateway.reports.figures import Object
from storage.savings.cohorts import Saving
from storage.savings.lengths import Lengths
from storage.savings.values import Compared, Estimate, Holdout, Modelled, NotEnough

UNKNOWN = NotEnough(0, 0.0, 0.0, None)
"""Nothing was compared with anything."""


def savings_object(saving: Saving | None) -> Object:
    """`undrawn` tells of requests that speculated without taking part in the draw."""
    drawn, undrawn = (saving.drawn, saving.undrawn) if saving else (UNKNOWN, None)
    lengths = saving.lengths if saving else None
    return {
        **estimate_object(drawn),
        "holdout_cost_us": saving.lost_us if saving else None,
        "lengths": _lengths(lengths),
        "undrawn": estimate_object(undrawn or UNKNOWN),
    }


def estimate_object(estimate: Estimate) -> Object:
    """Every member, whatever the method; null where it has nothing to say."""
    compared = estimate if isinstance(estimate, Compared) else None
    measured = estimate if isinstance(estimate, Holdout) else None
    modelled = estimate if isinstance(estimate, Modelled) else None
    return {
        "method": estimate.method,
        "saved_us": compared and compared.saved_us,
        "ci95_low_us": measured and measured.saved.low,
        "ci95_high_us": measured and measured.saved.high,
        "decode_us": compared and compared.decode_us,
        "baseline_decode_us": compared and compared.baseline_us,
        "num_requests": compared.requests if compared else 0,
        "decode_tokens": compared.tokens if compared else 0,
        "covered_tokens": estimate.covered,
        "num_controls": estimate.controls,
        "control_scope": compared and compared.scope,
        "missing_requests": estimate.missing if isinstance(estimate, NotEnough) else None,
        "error_of_one": modelled and modelled.error_of_one,
        "error_of_all": modelled and modelled.error_of_all,
    }


def _lengths(lengths: Lengths | None) -> Object:
    """Infinitely many errors, where all are of one length, have no number in JSON."""
    told = asdict(lengths) if lengths else {field.name: None for field in fields(Lengths)}
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in told.items()}
    return {**finite, "is_alarming": lengths and lengths.is_alarming}

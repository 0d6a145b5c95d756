"""Rows of usage for tests of reports."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from storage.histogram import Histogram
from storage.savings.cohorts import Saving
from storage.savings.lengths import Lengths
from storage.savings.values import Holdout, Interval, Modelled
from storage.usage import LATENCIES, OUTCOMES, TIMINGS, UsageRow
from storage.values import ProposerFigures

DAY = 86_400
START = 1_772_323_200
"""2026-03-01 00:00 UTC."""
NOW = START + 10 * DAY + 5000
SUMS = {
    "prompt_tokens": 300,
    "cached_tokens": 128,
    "generated_tokens": 62,
    "delivered_tokens": 60,
    "visible_tokens": 62,
    "completion_tokens": 66,
    "prediction_tokens": 80,
    "accepted_prediction_tokens": 30,
    "rejected_prediction_tokens": 4,
    "steps": 20,
    "idle_passes": 3,
    "accepted_delivered": 40,
    "drafted_tokens": 50,
    "accepted_tokens": 40,
}
ROW = UsageRow(
    bucket=datetime(2026, 3, 2, tzinfo=UTC),
    group={"model": "tiny"},
    requests=3,
    measured_requests=2,
    decode_tokens=60,
    sums=SUMS,
    outcomes=dict.fromkeys(map(str, OUTCOMES), 0) | {"completed": 2, "engine_lost": 1},
    timings=dict(zip(TIMINGS, (500, 2000, 6000, 1000, 4500, 500, 5000), strict=True)),
    latencies={name: Histogram.of([1000, 1000, 90_000]) for name in LATENCIES},
    drafting_requests=2,
    acceptance_ppm=1_500_000,
    by_proposer={
        "lookup": ProposerFigures(4, 20, 10, (4, 3, 2, 1)),
        "prediction": ProposerFigures(5, 30, 30, (5, 5, 5, 5, 5, 5)),
    },
)
"""Two requests that ended, one that a dead engine cut."""

HOLDOUT = Holdout(
    requests=100,
    tokens=2000,
    covered=0.9,
    decode_us=20_000_000,
    baseline_us=50_000_000,
    controls=60,
    baseline=Interval(45_000_000, 56_000_000),
    effective=24.5,
)
MODELLED = Modelled(
    requests=10,
    tokens=200,
    covered=1.0,
    decode_us=1_000_000,
    baseline_us=900_000,
    controls=60,
    error_of_one=0.4,
    error_of_all=-0.02,
)
SAVING = Saving(drawn=HOLDOUT, undrawn=MODELLED, lost_us=700_000, lengths=Lengths(20.0, 21.5, -1.25))


def ask(**parameters: object) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in {"start_time": START, **parameters}.items()]


def row(**changes: Any) -> UsageRow:
    return replace(ROW, **changes)

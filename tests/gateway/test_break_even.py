"""Whether speculation pays, and the time it saved: measured, guessed and unknown are told apart."""

import json
import math
from dataclasses import replace

import pytest

from gateway.reports.break_even import break_even
from gateway.reports.savings import estimate_object, savings_object
from storage.savings.cohorts import Saving
from storage.savings.lengths import Lengths
from storage.savings.values import Holdout, Interval, NotEnough
from tests.gateway.reporting import HOLDOUT, MODELLED, ROW, SAVING

UNKNOWN = NotEnough(controls=11, effective=4.5, covered=0.3, missing=900)


def of(drawn: Holdout | NotEnough) -> Saving:
    return replace(SAVING, drawn=drawn)


def test_both_sides_are_time_a_token_of_the_same_work() -> None:
    assert break_even(ROW, SAVING) == {
        "verdict": "pays",
        "method": "holdout",
        "us_per_token": 10_000.0,
        "baseline_us_per_token": 25_000.0,
        "ratio": 0.4,
        "num_controls": 60,
        "missing_requests": None,
    }


@pytest.mark.parametrize(
    ("baseline", "verdict"),
    [
        ((20_000_001, 30_000_000), "pays"),
        ((20_000_000, 30_000_000), "not_enough_data"),
        ((10_000_000, 20_000_000), "not_enough_data"),
        ((10_000_000, 19_999_999), "does_not_pay"),
    ],
)
def test_the_interval_gives_the_verdict_not_the_figure(baseline: tuple[int, int], verdict: str) -> None:
    assert break_even(ROW, of(replace(HOLDOUT, baseline=Interval(*baseline))))["verdict"] == verdict


@pytest.mark.parametrize("drawn", [UNKNOWN, None])
def test_without_controls_enough_there_is_no_verdict_but_what_is_missing(drawn: NotEnough | None) -> None:
    told = break_even(ROW, of(drawn) if drawn else None)
    assert told == {
        "verdict": "not_enough_data",
        "method": "not_enough_data",
        "us_per_token": 100.0,
        "baseline_us_per_token": None,
        "ratio": None,
        "num_controls": 11 if drawn else 0,
        "missing_requests": 900 if drawn else None,
    }


def test_a_guess_gives_no_verdict() -> None:
    assert break_even(ROW, replace(SAVING, drawn=MODELLED))["verdict"] == "not_enough_data"


def test_time_saved_has_its_method_and_its_interval() -> None:
    told = savings_object(SAVING)
    undrawn = told.pop("undrawn")
    assert told == {
        "method": "holdout",
        "saved_us": 30_000_000,
        "ci95_low_us": 25_000_000,
        "ci95_high_us": 36_000_000,
        "decode_us": 20_000_000,
        "baseline_decode_us": 50_000_000,
        "num_requests": 100,
        "decode_tokens": 2000,
        "covered_tokens": 0.9,
        "num_controls": 60,
        "control_scope": "deployment",
        "missing_requests": None,
        "error_of_one": None,
        "error_of_all": None,
        "holdout_cost_us": 700_000,
        "lengths": {"treated": 20.0, "controls": 21.5, "errors": -1.25, "is_alarming": False},
    }
    assert (undrawn["method"], undrawn["saved_us"], undrawn["ci95_low_us"]) == ("modelled", -100_000, None)
    assert (undrawn["error_of_one"], undrawn["error_of_all"]) == (0.4, -0.02)


def test_no_figure_is_made_of_too_few() -> None:
    told = estimate_object(UNKNOWN)
    assert (told["method"], told["saved_us"], told["missing_requests"], told["num_controls"]) == (
        *("not_enough_data", None, 900, 11),
    )
    assert savings_object(None)["saved_us"] is None


def test_answers_all_of_one_length_are_told_in_json() -> None:
    told = savings_object(replace(SAVING, lengths=Lengths(1.0, 2.0, -math.inf)))["lengths"]
    assert json.dumps(told, allow_nan=False)
    assert told["is_alarming"]

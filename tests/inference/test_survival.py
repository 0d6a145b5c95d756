"""The chance of a drafted token is learnt by its place, from what was emitted where it was expected."""

import pytest

from inference.speculation.record import record_of
from inference.speculation.survival import FADE, WEIGHT, Survival, common, spread


def test_places_widen_with_distance() -> None:
    assert spread(0) == [0] * 7
    assert spread(7) == [1, 1, 2, 3, 0, 0, 0]
    assert spread(64) == [1, 1, 2, 4, 8, 16, 32]


def test_the_prior_speaks_until_something_is_known() -> None:
    assert Survival((0.5, 0.8)).expected(3) == pytest.approx([0.0, 0.5, 0.9, 1.22])


def test_a_contradicted_token_lowers_its_place_and_leaves_the_later_ones() -> None:
    survival = Survival((0.5, 0.8))
    assert survival.observe([7, 8], [9]) is False
    first = WEIGHT * 0.5 / (WEIGHT + 1)
    assert survival.expected(2) == pytest.approx([0.0, first, first + first * 0.8])


def test_what_lies_beyond_the_emitted_tokens_is_not_judged() -> None:
    survival = Survival((0.5, 0.8))
    assert survival.observe([7, 8, 9], [7]) is True
    first = (1 + WEIGHT * 0.5) / (WEIGHT + 1)
    assert survival.expected(2) == pytest.approx([0.0, first, first + first * 0.8])


def test_old_observations_fade() -> None:
    survival = Survival((0.5, 0.8))
    for _ in range(200):
        survival.observe([7], [8])
    assert survival.expected(1)[1] < 0.1
    for _ in range(20):
        survival.observe([7], [7])
    weight = 1 / (1 - FADE)
    assert survival.expected(1)[1] == pytest.approx((weight * (1 - FADE**20) + 1.0) / (weight + WEIGHT), rel=1e-6)


def test_common_counts_leading_equals() -> None:
    assert [common(a, b) for a, b in (([], [1]), ([1, 2], [1, 2, 3]), ([1, 2], [1, 3]))] == [0, 2, 1]


def test_a_proposal_is_judged_by_what_came_whoever_drafted_it() -> None:
    record = record_of({}, "lookup", start=8)
    before = record.survival.expected(2)
    record.hindsight([1, 2], (5, 6))
    record.hindsight([1, 2], (5, 6, 7))
    assert record.survival.expected(2) == before, "nothing came yet"
    record.hindsight([1, 2, 5, 6, 9], ())
    assert record.is_hot is False
    assert record.survival is record.cold
    record.hindsight([1, 2, 5, 6, 9], (4,))
    record.hindsight([1, 2, 5, 6, 9, 4], ())
    assert record.is_hot is True
    assert record.survival is record.hot


def test_records_are_kept_by_proposer_and_by_sequence() -> None:
    one: dict[str, object] = {}
    assert record_of(one, "lookup", 8) is record_of(one, "lookup", 8)
    assert record_of(one, "lookup", 8) is not record_of(one, "prediction", 8)
    assert record_of(one, "lookup", 8) is not record_of({}, "lookup", 8)

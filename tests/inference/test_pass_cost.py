"""The cost of a pass is measured, robustly, and not guessed where it was not."""

import random

import pytest

from inference.speculation.pass_cost import ENOUGH, STALE, WINDOW, PassCost, low_quartile, non_decreasing


def measured(*passes: tuple[int, float]) -> PassCost:
    cost = PassCost()
    for rows, seconds in passes:
        for _ in range(ENOUGH):
            cost.observe(rows, seconds)
    return cost


def test_nothing_is_known_before_it_was_measured() -> None:
    cost = PassCost()
    assert cost.seconds(1) is None
    assert not cost.is_measured
    cost.observe(1, 0.1)
    assert cost.seconds(1) is None, "one pass may be a hiccup"


def test_costs_between_two_measured_sizes_lie_on_the_line() -> None:
    cost = measured((1, 0.020), (8, 0.048), (16, 0.080))
    assert cost.seconds(1) == 0.020
    assert cost.seconds(4) == pytest.approx(0.032)
    assert cost.seconds(12) == pytest.approx(0.064)


def test_outside_of_what_was_measured_it_says_so() -> None:
    cost = measured((2, 0.1), (8, 0.2))
    assert cost.seconds(1) is None
    assert cost.seconds(9) is None
    assert [cost.nearest(1), cost.nearest(9)] == [0.1, 0.2]
    assert PassCost().nearest(5) == 1.0


def test_a_hiccup_moves_nothing() -> None:
    cost = measured((1, 0.020), (1, 0.020), (8, 0.060))
    cost.observe(1, 3.0)
    assert cost.seconds(1) == 0.020


def test_the_low_end_of_what_was_seen_counts() -> None:
    """Two passes in three were slowed by something else."""
    cost = measured((1, 0.020))
    for _ in range(4):
        cost.observe(1, 0.090)
        cost.observe(1, 0.020)
        cost.observe(1, 0.150)
    assert cost.seconds(1) == 0.020
    assert low_quartile([4.0, 3.0, 2.0, 1.0]) == 1.0
    assert low_quartile([5.0, 4.0, 3.0, 2.0, 1.0]) == 2.0


def test_it_follows_a_load_that_stays() -> None:
    cost = measured((1, 0.020), (8, 0.060))
    for _ in range(WINDOW):
        cost.observe(1, 0.040)
    assert cost.seconds(1) == 0.040


def test_more_rows_never_cost_less() -> None:
    cost = measured((1, 0.02), (2, 0.06), (4, 0.04), (8, 0.08))
    assert [cost.seconds(rows) for rows in (1, 2, 3, 4, 8)] == [0.02, 0.05, 0.05, 0.05, 0.08]


def test_what_was_not_seen_for_long_is_forgotten() -> None:
    """Compiled passes may have become faster: a size is measured again rather than believed for ever."""
    cost = measured((1, 0.02), (64, 9.0))
    for _ in range(STALE):
        cost.observe(1, 0.02)
    assert cost.seconds(64) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_times_are_left_out(seconds: float) -> None:
    cost = measured((1, seconds), (0, 0.1))
    assert not cost.is_measured


def test_pooling_gives_the_nearest_non_decreasing_values() -> None:
    assert non_decreasing([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert non_decreasing([3.0, 1.0], [3, 1]) == [2.5, 2.5]
    draw = random.Random(5)
    values = [draw.random() for _ in range(30)]
    fitted = non_decreasing(values, [draw.randint(1, 9) for _ in values])
    assert fitted == sorted(fitted)
    assert len(fitted) == 30

"""What is said of time saved, from sums that are easy to add up by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from storage.savings.baseline import COARSE, baseline
from storage.savings.cohorts import Cohorts, saving
from storage.savings.holdout import LEAST_EFFECTIVE, estimate, lost_by_controls
from storage.savings.lengths import compare_lengths
from storage.savings.matching import LEAST_IN_A_CELL, StrataSums, matches
from storage.savings.modelled import Halves, model
from storage.savings.observation import Observation, observe
from storage.savings.stratum import CELLS, LOADS_MILLI, Stratum, cell
from storage.savings.student import student
from storage.savings.sums import LAST, LONGEST, MOST_TOKENS, Sums, total
from storage.savings.values import Holdout, Interval, Modelled, NotEnough
from storage.savings.verdict import verdict

ALONE = cell(100, 100, 1_000, sampled=False)
IN_EIGHTS = cell(100, 100, 8_000, sampled=False)
PPM = 20_000


def stratum(number: int = ALONE, version: int = 1) -> Stratum:
    return Stratum("dep_1", version, number)


def requests(number: int, tokens: int, micros: int, ppm: int = PPM) -> Sums:
    return total([Sums.of(tokens, micros, ppm)] * number)


def sums(number: int, tokens: int, micros: int, where: Stratum | None = None) -> StrataSums:
    return {where or stratum(): requests(number, tokens, micros)}


def halves(number: int, tokens: int, micros: int) -> Halves:
    return Halves(sums(number, tokens, micros), sums(number, tokens, micros))


def test_saved_is_what_the_same_tokens_took_the_controls_less_what_they_took() -> None:
    found = estimate(sums(100, 100, 1_200_000), sums(40, 100, 2_000_000))
    assert isinstance(found, Holdout)
    assert (found.requests, found.tokens, found.controls, found.covered) == (100, 10_000, 40, 1.0)
    assert (found.baseline_us, found.decode_us, found.saved_us) == (200_000_000, 120_000_000, 80_000_000)
    assert (found.with_us_per_token, found.without_us_per_token) == (12_000, 20_000)
    assert found.effective == pytest.approx(40)
    # Times without any scatter: what is left is what strata do not see. 2.0227: Student's t of 39 degrees.
    factor = math.exp(2.0227 * COARSE)
    assert found.baseline.low == pytest.approx(200_000_000 / factor, rel=1e-6)
    assert found.baseline.high == pytest.approx(200_000_000 * factor, rel=1e-6)
    assert found.saved == Interval(found.baseline.low - 120_000_000, found.baseline.high - 120_000_000)
    assert (found.method, found.scope) == ("holdout", "deployment")


def test_scatter_widens_the_interval() -> None:
    controls = {stratum(): total([Sums.of(100, 1_000_000, PPM), Sums.of(100, 3_000_000, PPM)] * 30)}
    found = estimate(sums(3_000, 100, 1_200_000), controls)
    assert isinstance(found, Holdout)
    assert found.baseline_us == 6_000_000_000
    # Half at 1, half at 3: by logarithms s² = (ln 3 / 2)² 60/59, which is more than by squares (0.25 × 60/59).
    spread = math.expm1((math.log(3) / 2) ** 2 * 60 / 59)
    error = math.sqrt(spread * (1 / 60 + 1 / 3_000) + COARSE**2)
    assert math.log(found.baseline.high / found.baseline_us) == pytest.approx(student(59) * error, rel=1e-3)


def test_where_logarithms_see_less_squares_decide() -> None:
    """One in sixty takes thirty times as long: the mean is twice as uncertain as a log-normal one."""
    slow = [Sums.of(100, 30_000_000, PPM)] * 2 + [Sums.of(100, 1_000_000, PPM)] * 118
    controls = {stratum(): total(slow)}
    found = estimate(sums(1_000, 100, 900_000), controls)
    assert isinstance(found, Holdout)
    mean = (2 * 30 + 118) / 120
    squares = (2 * (30 - mean) ** 2 + 118 * (1 - mean) ** 2) / mean**2 / 119
    error = math.sqrt(squares * (1 / 120 + 1 / 1_000) + COARSE**2)
    assert math.log(found.baseline.high / found.baseline_us) == pytest.approx(student(119) * error, rel=1e-4)


def test_times_that_say_nothing_have_an_interval_that_says_so() -> None:
    controls = {stratum(): total([Sums.of(100, 1, PPM), Sums.of(1, LONGEST, PPM)] * 30)}
    [match] = matches(sums(1, 100, 10), controls)
    assert baseline([match], controls).factor == pytest.approx(1_000)


def test_lost_time_stays_lost() -> None:
    found = estimate(sums(100, 100, 2_600_000), sums(40, 100, 2_000_000))
    assert isinstance(found, Holdout)
    assert found.saved_us == -60_000_000
    assert found.saved.high < 0
    assert verdict(found) == "does_not_pay"


def test_it_pays_only_where_zero_is_outside_the_interval() -> None:
    controls = sums(40, 100, 2_000_000)
    assert verdict(estimate(sums(100, 100, 1_900_000), controls)) == "pays"
    assert verdict(estimate(sums(100, 100, 1_990_000), controls)) == "not_enough_data"
    assert verdict(estimate(sums(100, 100, 2_100_000), controls)) == "does_not_pay"
    assert verdict(model(sums(100, 100, 1_000_000), halves(20, 100, 2_000_000))) == "not_enough_data"


def test_strata_weigh_as_the_treated_fill_them() -> None:
    """Controls mostly alone, the treated mostly in eights, where a token takes twice the time."""
    busy = stratum(IN_EIGHTS)
    controls = {**sums(80, 100, 2_000_000), **sums(40, 100, 4_000_000, busy)}
    treated = {**sums(10, 100, 1_000_000), **sums(90, 100, 3_000_000, busy)}
    found = estimate(treated, controls)
    assert isinstance(found, Holdout)
    assert found.baseline_us == 10 * 2_000_000 + 90 * 4_000_000
    assert found.effective == pytest.approx(1 / (0.1**2 / 80 + 0.9**2 / 40))


def test_a_stratum_with_too_few_controls_looks_beside_it_but_never_at_another_load_or_version() -> None:
    own, half, sampled, long_prompt = (
        ALONE,
        cell(100, 100, 1_500, False),
        cell(100, 100, 1_500, True),
        cell(9_000, 9, 1_500, True),
    )
    few = LEAST_IN_A_CELL - 1

    def cells(*have: tuple[Stratum, int]) -> list[tuple[int, ...]]:
        controls = {where: requests(number, 100, 10) for where, number in have}
        found = matches(sums(1, 100, 10), controls)
        return [tuple(s.cell for s in match.cell) for match in found]

    assert cells((stratum(own), few + 1), (stratum(half), 99)) == [(own,)]
    assert cells((stratum(own), few), (stratum(half), 1), (stratum(sampled), 99)) == [(own, half)]
    assert cells((stratum(own), few), (stratum(sampled), 1), (stratum(long_prompt), 99)) == [(own, sampled)]
    assert cells((stratum(own), few), (stratum(long_prompt), 1)) == [(own, long_prompt)]
    assert cells((stratum(own), few), (stratum(IN_EIGHTS), 99), (stratum(own, version=2), 99)) == []


def test_too_few_controls_are_no_figure_but_a_number_of_requests() -> None:
    found = estimate(sums(490, 100, 1_000_000), sums(10, 100, 2_000_000))
    # Ten more controls of equal weight: 25 of real lengths, one request in fifty.
    assert found == NotEnough(controls=10, effective=10.0, covered=1.0, missing=25 * 50)
    assert isinstance(estimate(sums(490, 100, 1_000_000), sums(int(LEAST_EFFECTIVE), 100, 2_000_000)), Holdout)


def test_tokens_without_controls_of_their_load_are_not_covered() -> None:
    treated = {**sums(60, 100, 1_000_000), **sums(40, 100, 1_000_000, stratum(IN_EIGHTS))}
    controls = {**sums(100, 100, 2_000_000), **sums(3, 100, 2_000_000, stratum(IN_EIGHTS))}
    found = estimate(treated, controls)
    # Five more in eights, where two requests in five run, is 12.5 more in all.
    assert found == NotEnough(controls=100, effective=pytest.approx(100), covered=0.6, missing=625)
    few = {**treated, **sums(10, 100, 1_000_000, stratum(IN_EIGHTS))}
    covered = estimate(few, controls)
    assert isinstance(covered, Holdout)
    assert covered.covered == 60 / 70
    assert covered.tokens == 6_000


def test_without_a_draw_no_number_of_requests_helps() -> None:
    undrawn = {stratum(): requests(9, 100, 10, ppm=0)}
    assert estimate(undrawn, {}) == NotEnough(controls=0, effective=0.0, covered=0.0, missing=None)
    assert estimate({}, {}) == NotEnough(controls=0, effective=0.0, covered=0.0, missing=None)


def test_a_model_says_how_far_it_is_off() -> None:
    known = Halves(sums(20, 100, 2_000_000), sums(20, 100, 2_200_000))
    found = model(sums(50, 100, 1_000_000), known)
    assert isinstance(found, Modelled)
    assert (found.method, found.controls, found.requests) == ("modelled", 40, 50)
    assert (found.baseline_us, found.saved_us) == (50 * 2_100_000, 50 * 1_100_000)
    # Each half is 0.2 s off, of 2.1 s in the mean; together they are right.
    assert found.error_of_one == pytest.approx(0.2 / 2.1)
    assert found.error_of_all == pytest.approx(0.0)


def test_a_model_needs_controls_too() -> None:
    assert model(sums(50, 100, 10), Halves({}, {})) == NotEnough(controls=0, effective=0.0, covered=0.0, missing=400)
    undrawn = {stratum(): requests(50, 100, 10, ppm=0)}
    few = halves(1, 100, 10)
    # Six more in a cell, one request in fifty.
    assert model(undrawn, few) == NotEnough(controls=0, effective=0.0, covered=0.0, missing=300)
    one_half = Halves(sums(40, 100, 2_000_000), {})
    assert isinstance(model(sums(50, 100, 10), one_half), NotEnough), "nothing tells how far it is off"


def test_what_the_holdout_costs() -> None:
    assert lost_by_controls(sums(100, 100, 1_200_000), sums(10, 100, 2_000_000)) == 10 * 800_000
    assert lost_by_controls(sums(100, 100, 2_500_000), sums(10, 100, 2_000_000)) == -10 * 500_000
    assert lost_by_controls({}, sums(10, 100, 2_000_000)) is None


def test_a_group_too_small_is_modelled_and_predictions_never_join_what_is_measured() -> None:
    group = Cohorts(treated=dict(sums(9, 100, 1_000_000)), undrawn=dict(sums(5, 100, 500_000)))
    few, many = halves(4, 100, 2_000_000), halves(40, 100, 2_000_000)
    said = saving(group, few, many)
    assert isinstance(said.drawn, Modelled)
    assert said.drawn.saved_us == 9_000_000
    assert isinstance(said.undrawn, Modelled)
    assert (said.undrawn.requests, said.undrawn.saved_us) == (5, 7_500_000)
    measured = saving(group, many, many)
    assert isinstance(measured.drawn, Holdout)
    assert measured.drawn.requests == 9
    assert isinstance(measured.undrawn, Modelled)
    assert isinstance(saving(group, few, few).drawn, NotEnough)


def test_other_lengths_in_the_cohorts_are_alarming() -> None:
    def lengths(*tokens: int) -> StrataSums:
        return {stratum(): total(Sums.of(count, 10, PPM) for count in tokens * 50)}

    same = compare_lengths(lengths(50, 150), lengths(50, 150))
    assert same is not None
    assert (same.treated, same.controls, same.errors, same.is_alarming) == (100, 100, 0.0, False)
    shorter = compare_lengths(lengths(20, 120), lengths(50, 150))
    assert shorter is not None
    assert shorter.errors == pytest.approx(-30 / math.sqrt(2 * 2_500 / 99))
    assert shorter.is_alarming
    assert compare_lengths(lengths(20, 120), {stratum(): requests(49, 100, 10)}) is None


def test_students_t_is_that_of_the_tables() -> None:
    table = {5: 2.5706, 10: 2.2281, 20: 2.0860, 40: 2.0211, 120: 1.9799}
    assert {freedom: student(freedom) for freedom in table} == pytest.approx(table, rel=1e-3)


def test_cells_are_told_apart_at_their_edges() -> None:
    def load(batch_milli: int) -> int:
        number = cell(0, 1, batch_milli, False)
        return number // 36 * 2 + number % 2

    assert [load(milli) for edge in LOADS_MILLI for milli in (edge, edge + 1)] == [0, *sorted([*range(1, 11)] * 2), 11]
    prompts = [cell(tokens, 1, 0, False) for tokens in (511, 512, 4_095, 4_096)]
    assert prompts == [0, 12, 12, 24]
    outputs = [cell(0, tokens, 0, False) for tokens in (63, 64, 255, 256)]
    assert outputs == [0, 4, 4, 8]
    assert cell(0, 1, 0, True) == 2
    assert cell(9_999, 999, 99_000, True) == CELLS - 1


def test_no_number_of_requests_leaves_64_bits() -> None:
    largest = Sums.of(MOST_TOKENS, LONGEST, 1_000_000)
    assert max(largest.members) == 2**44
    half_a_million = Sums(*(2**18 * member for member in largest.members))
    assert max((half_a_million + half_a_million).members) <= LAST
    endless = Sums(*(2**62 for _ in largest.members))
    assert (endless + endless + endless).members == (LAST,) * len(largest.members)


ROW: dict[str, Any] = {
    "request_id": "r1",
    "deployment_id": "dep_1",
    "config_version": 3,
    "cohort": "treated",
    "final": True,
    "generated_tokens": 101,
    "choices_with_output": 1,
    "prompt_tokens": 100,
    "drafted_tokens": 30,
    "decode_us": 1_234_567,
    "batch_milli": 1_000,
    "sampled": False,
    "holdout_ppm": 20_000,
    "config_versions": {"3": 60},
}


def seen(**changes: Any) -> Observation | None:
    return observe(SimpleNamespace(**{**ROW, **changes}))


def test_a_settled_row_says_its_stratum_its_cohort_and_its_sums() -> None:
    found = seen()
    assert found is not None
    assert (found.stratum, found.cohort) == (Stratum("dep_1", 3, ALONE), "treated")
    # ln 12345.67 = 9.421
    assert found.sums == Sums(1, 20_000, 100, 1_234_567, 10_000, 123_500, 1_235**2, 9_421, 9_421**2)
    assert seen(cohort="control", drafted_tokens=0) == replace(found, cohort="control")
    assert {observed.half for n in range(20) if (observed := seen(request_id=f"r{n}"))} == {0, 1}


def test_what_speculated_without_a_draw_can_be_modelled() -> None:
    found = seen(cohort=None, holdout_ppm=None)
    assert found is not None
    assert (found.cohort, found.sums.holdout_ppm) == ("undrawn", 0)
    assert seen(cohort=None, drafted_tokens=0) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"final": False},
        {"config_versions": {"3": 30, "4": 30}},
        {"config_versions": {"4": 60}},
        {"config_versions": {}},
        {"generated_tokens": 1},
        {"decode_us": 0},
        {"decode_us": LONGEST + 1},
        {"generated_tokens": MOST_TOKENS + 2},
        {"deployment_id": None},
        {"config_version": None},
    ],
)
def test_what_cannot_be_compared_is_left_out(changes: dict[str, Any]) -> None:
    assert seen(**changes) is None


def test_halves_make_a_whole() -> None:
    first, second = sums(2, 10, 100), {**sums(3, 10, 100), **sums(1, 10, 100, stratum(IN_EIGHTS))}
    assert Halves(first, second).whole == {stratum(): requests(5, 10, 100), stratum(IN_EIGHTS): requests(1, 10, 100)}

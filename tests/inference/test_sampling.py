"""Cuts, ties, faults and company: one row's token depends on nothing but that row."""

import math

import pytest
import torch

from inference.model.noise import gumbel
from inference.model.sampling import INVALID, sample
from inference.protocol import SamplingParams
from inference.sequence import SampleRow


def row(position: int = 0, choice: int = 0, forced: int | None = None, **sampling: float) -> SampleRow:
    return SampleRow(SamplingParams(**{"seed": 5, **sampling}), choice, position, forced)  # type: ignore[arg-type]


def random_logits(rows: int, vocabulary: int, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(1)) * spread


def by_definition(logits_V: torch.Tensor, row: SampleRow) -> tuple[int, set[int]]:
    """Everything sorted, number by number: the token, and who survived."""
    params = row.sampling
    scores = (logits_V.double() / params.temperature).tolist()
    order = sorted(range(len(scores)), key=lambda token: -scores[token])
    if params.top_k:
        order = [token for token in order if scores[token] >= scores[order[min(params.top_k, len(order)) - 1]]]
    weights = [math.exp(scores[token] - scores[order[0]]) for token in order]
    mass, kept, wanted = 0.0, 0, params.top_p * sum(weights)
    while kept < len(order) and (params.top_p == 1.0 or mass < wanted):
        mass, kept = mass + weights[kept], kept + 1
    alive = [token for token in order if scores[token] >= scores[order[kept - 1]]]
    noise = gumbel([row], torch.tensor([alive]))[0].tolist()
    return alive[max(range(len(alive)), key=lambda i: scores[alive[i]] + noise[i])], set(alive)


CUTS = [
    {},
    {"temperature": 0.7},
    {"temperature": 0.7, "top_p": 0.9},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": 40, "top_p": 0.5},
    {"top_k": 1500},
    {"temperature": 2.0, "top_p": 0.99},
    {"top_p": 1e-9},
]


@pytest.mark.parametrize("spread", [0.1, 3.0], ids=["flat", "peaked"])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_the_token_is_that_of_the_definition(cut: dict[str, float], spread: float) -> None:
    """Flat: the cut lies far beyond the first candidates."""
    logits = random_logits(12, 20_000, spread)
    rows = [row(position=i, **cut) for i in range(12)]
    expected = [by_definition(each, which)[0] for each, which in zip(logits, rows, strict=True)]
    assert sample(logits, rows) == expected
    assert len(set(expected)) > 6 or "top_k" not in cut


def test_the_flat_cut_lies_beyond_the_candidates_sorted_first() -> None:
    assert len(by_definition(random_logits(1, 20_000, 0.1)[0], row(top_p=0.9))[1]) > 9000


def test_a_row_does_not_depend_on_its_company() -> None:
    logits = random_logits(45, 5000)
    logits[7] = float("nan")
    rows = [row(position=i, choice=i % 3, **CUTS[i % len(CUTS)]) for i in range(44)] + [row(temperature=0.0)]
    together = sample(logits, rows)
    assert together == [sample(logits[i : i + 1], [rows[i]])[0] for i in range(45)]
    assert together[::-1] == sample(logits.flip(0), rows[::-1])


@pytest.mark.parametrize("temperature", [0.0, 9e-6])
def test_greedy_takes_the_lowest_id_of_equals(temperature: float) -> None:
    logits = torch.zeros(200, 20_000)
    logits[:, [17, 40, 19_999]] = 5.0
    assert sample(logits, [row(position=i, temperature=temperature) for i in range(200)]) == [17] * 200


def test_just_above_greedy_equals_are_drawn_evenly() -> None:
    logits = torch.zeros(600, 50)
    logits[:, [17, 40]] = 5.0
    drawn = sample(logits, [row(position=i, temperature=1.1e-5) for i in range(600)])
    assert set(drawn) == {17, 40}
    assert 240 < drawn.count(17) < 360  # 300 ± 12 standard deviations of 5 %


@pytest.mark.parametrize("cut", [{"top_k": 3}, {"top_p": 0.7}])
def test_tokens_as_good_as_the_last_kept_are_kept(cut: dict[str, float]) -> None:
    """Else which of them survives would hang on the order of a sort."""
    logits = torch.log(torch.tensor([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])).repeat(2000, 1)
    assert set(sample(logits, [row(position=i, **cut) for i in range(2000)])) == {0, 1, 2, 3, 4, 5}


def test_a_row_with_a_nan_is_invalid_and_alone_in_it() -> None:
    logits = random_logits(4, 100)
    logits[1, 63] = float("nan")
    logits[2] = float("-inf")
    rows = [row(temperature=0.0), row(temperature=0.0), row(forced=3), row(top_p=0.9)]
    drawn = sample(logits, rows)
    assert drawn[1:3] == [INVALID, INVALID]
    assert drawn[0] == int(logits[0].argmax())
    assert drawn[3] == by_definition(logits[3], rows[3])[0]


def test_a_dictated_token_replaces_only_the_chosen_id() -> None:
    logits = random_logits(3, 100)
    plain = sample(logits, [row(i) for i in range(3)])
    assert sample(logits, [row(0), row(1, forced=99), row(2)]) == [plain[0], 99, plain[2]]


def test_no_rows_no_tokens() -> None:
    assert sample(torch.empty(0, 100), []) == []


def test_seeds_choices_and_positions_each_change_the_draw() -> None:
    logits = torch.zeros(1, 50_000)
    variants = [row(), row(seed=6), row(seed=-5), row(seed=2**63 - 1), row(choice=1), row(position=1)]
    drawn = [sample(logits, [each])[0] for each in variants]
    assert len(set(drawn)) == 6
    assert drawn == [sample(logits, [each])[0] for each in variants]


def test_transforms_see_every_row_and_leave_the_logits_as_they_were() -> None:
    logits = random_logits(3, 100)
    before = logits.clone()

    def ban_best(logits_RV: torch.Tensor, rows: object) -> torch.Tensor:
        changed = logits_RV.clone()
        changed[1, changed[1].argmax()] = float("-inf")
        return changed

    rows = [row(temperature=0.0)] * 3
    plain, banned = sample(logits, rows), sample(logits, rows, transforms=(ban_best,))
    assert banned[1] == int(logits[1].topk(2).indices[1])
    assert (banned[0], banned[2]) == (plain[0], plain[2])
    assert torch.equal(logits, before)

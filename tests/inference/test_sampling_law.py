"""The law of the draws, by χ² through the real `sample`, and faults of the noise that the same test must notice.

200,000 draws (or pairs of draws) each. Seeds are fixed, so a verdict never changes by chance; critical values are the
upper 0.1 % points of χ², NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.4.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from inference.model.noise import Noise, gumbel
from inference.model.sampling import sample
from inference.protocol import SamplingParams
from inference.sequence import SampleRow

DRAWS = 200_000
CRITICAL = {1: 10.828, 3: 16.266, 4: 18.467, 5: 20.515, 7: 24.322, 24: 51.179, 63: 103.442}
P = (0.32, 0.21, 0.17, 0.11, 0.08, 0.06, 0.03, 0.02)
LOGITS = torch.log(torch.tensor(P)) + 1.7
BATCH = 20_000

Law = dict[tuple[int, ...], float]
Cut = dict[str, float]


def draw(rows: Sequence[SampleRow], noise: Noise = gumbel) -> list[int]:
    tokens: list[int] = []
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        tokens += sample(LOGITS.expand(len(part), -1), part, noise=noise)
    return tokens


def law(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> list[float]:
    """What each token's share must be, worked out token by token; P falls, so the order is the ids'."""
    weights = [p ** (1 / temperature) for p in P][: top_k or len(P)]
    kept = [w for i, w in enumerate(weights) if top_p == 1.0 or sum(weights[:i]) < top_p * sum(weights)]
    return [w / sum(kept) for w in kept]


def chi_squared(seen: Counter[tuple[int, ...]], expected: Law) -> float:
    total = seen.total()
    assert set(seen) <= set(expected), "a token came that no cut leaves"
    return sum((seen[cell] - total * p) ** 2 / (total * p) for cell, p in expected.items())


def verdict(cells: Sequence[tuple[int, ...]], shares: list[float]) -> tuple[float, float]:
    """The statistic of single draws or of pairs, as the cells are, and its critical value."""
    single = dict(enumerate(shares))
    expected: Law = {(a,): p for a, p in single.items()}
    if len(cells[0]) == 2:
        expected = {(a, b): p * q for a, p in single.items() for b, q in single.items()}
    return chi_squared(Counter(cells), expected), CRITICAL[len(expected) - 1]


Cells = Callable[[Cut, Noise, int], list[tuple[int, ...]]]


def over_seeds(cut: Cut, noise: Noise, num: int) -> list[tuple[int, ...]]:
    rows = [SampleRow(SamplingParams(seed=2**33 + seed, **cut), 0, 0) for seed in range(num)]  # type: ignore[arg-type]
    return [(token,) for token in draw(rows, noise)]


def over_positions(cut: Cut, noise: Noise, num: int) -> list[tuple[int, ...]]:
    params = SamplingParams(seed=77, **cut)  # type: ignore[arg-type]
    return [(token,) for token in draw([SampleRow(params, 0, position) for position in range(num)], noise)]


def neighbouring_positions(cut: Cut, noise: Noise, num: int) -> list[tuple[int, ...]]:
    tokens = [token for (token,) in over_positions(cut, noise, 2 * num)]
    return list(zip(tokens[::2], tokens[1::2], strict=True))


def neighbouring_seeds(cut: Cut, noise: Noise, num: int) -> list[tuple[int, ...]]:
    tokens = [token for (token,) in over_seeds(cut, noise, 2 * num)]
    return list(zip(tokens[::2], tokens[1::2], strict=True))


def two_choices(cut: Cut, noise: Noise, num: int) -> list[tuple[int, ...]]:
    params = SamplingParams(seed=78, **cut)  # type: ignore[arg-type]
    both = [draw([SampleRow(params, choice, i) for i in range(num)], noise) for choice in (0, 1)]
    return list(zip(*both, strict=True))


LAWS: dict[str, Cells] = {
    f.__name__: f for f in (over_seeds, over_positions, neighbouring_positions, neighbouring_seeds, two_choices)
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_law(name: str) -> None:
    statistic, critical = verdict(LAWS[name]({}, gumbel, DRAWS), law())
    assert statistic < critical


@pytest.mark.parametrize(
    "cut",
    [
        {"temperature": 1.6},
        {"top_k": 5},
        {"top_p": 0.8},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 1.3, "top_k": 6, "top_p": 0.75},
    ],
    ids=str,
)
def test_draws_follow_the_law_that_is_left_by_cuts(cut: Cut) -> None:
    statistic, critical = verdict(over_positions(cut, gumbel, DRAWS), law(**cut))  # type: ignore[arg-type]
    assert statistic < critical


def test_neighbours_are_independent_after_cuts_too() -> None:
    cut = {"temperature": 0.7, "top_k": 5}
    statistic, critical = verdict(neighbouring_positions(cut, gumbel, DRAWS), law(0.7, top_k=5))
    assert statistic < critical


def without(**fixed: int) -> Noise:
    """The noise, deaf to one of its keys."""

    def noise(rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor:
        deaf = [
            SampleRow(row.sampling, fixed.get("choice", row.choice), fixed.get("position", row.position))
            for row in rows
        ]
        return gumbel(deaf, ids_RC)

    return noise


def one_for_all_tokens(rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor:
    return gumbel(rows, torch.zeros_like(ids_RC))


def through_float32(rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor:
    """A hash whose key passes through fp32: seeds that differ in their low bits become one."""
    short = [
        SampleRow(SamplingParams(seed=int(float32(row.sampling.seed or 0))), row.choice, row.position) for row in rows
    ]
    return gumbel(short, ids_RC)


def of_four_bits(rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor:
    """A truncated hash: too few values to tell likely from less likely."""
    uniform = torch.exp(-torch.exp(-gumbel(rows, ids_RC)))
    return -torch.log(-torch.log((torch.floor(uniform * 16) + 0.5) / 16))


def float32(number: int) -> float:
    return float(torch.tensor(float(number), dtype=torch.float32))


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (without(position=0), "over_positions"),
        (without(position=0), "neighbouring_positions"),
        (without(choice=0), "two_choices"),
        (one_for_all_tokens, "over_positions"),
        (through_float32, "neighbouring_seeds"),
        (through_float32, "over_seeds"),
        (of_four_bits, "over_positions"),
    ],
)
def test_a_fault_of_the_noise_is_noticed(fault: Noise, name: str) -> None:
    statistic, critical = verdict(LAWS[name]({}, fault, DRAWS // 4), law())
    assert statistic > 2 * critical


def test_the_law_itself() -> None:
    assert law(top_k=2) == pytest.approx([0.32 / 0.53, 0.21 / 0.53])
    assert law(top_p=0.53) == pytest.approx([0.32 / 0.53, 0.21 / 0.53])
    assert law(temperature=0.5)[:1] == pytest.approx([0.32**2 / math.fsum(p * p for p in P)])

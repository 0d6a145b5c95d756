"""The hash behind the draws: written down once more in plain integers, and fixed for good."""

import math

import pytest
import torch

from inference.model.noise import gumbel
from inference.protocol import SamplingParams
from inference.sequence import SampleRow

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def mix(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def by_definition(seed: int, choice: int, position: int, token: int) -> float:
    key = mix(seed % WORD)
    for number in (choice, position):
        key = mix((key + GOLDEN * (number + 1)) % WORD)
    bits = mix((key + GOLDEN * (token + 1)) % WORD) >> 12
    return -math.log(-math.log((bits + 0.5) / 2**52))


def noise(seed: int, choice: int, position: int, tokens: list[int]) -> list[float]:
    return gumbel([SampleRow(SamplingParams(seed=seed), choice, position)], torch.tensor([tokens]))[0].tolist()


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 123456789])
def test_it_is_splitmix_keyed_by_seed_choice_and_position(seed: int) -> None:
    for choice, position in [(0, 0), (1, 0), (0, 1), (127, 8191)]:
        expected = [by_definition(seed, choice, position, token) for token in (0, 1, 49151, 262143)]
        assert noise(seed, choice, position, [0, 1, 49151, 262143]) == pytest.approx(expected, rel=1e-12)


def test_seeds_keep_their_meaning_from_version_to_version() -> None:
    assert noise(42, 0, 0, [0, 1, 2]) == pytest.approx(
        [0.483883897314473, -0.08250046994487296, 1.2838195547138895], rel=1e-12
    )


def test_it_is_a_number_whatever_the_hash_says() -> None:
    """Half a step from 0 and from 1: the extremes of 52 bits are -3.6 and 36.7."""
    drawn = torch.tensor(noise(7, 0, 0, list(range(200_000))))
    assert drawn.isfinite().all()
    assert -3.7 < float(drawn.min()) < -2.2
    assert 9 < float(drawn.max()) < 37


def test_neither_order_nor_company_matters() -> None:
    whole = noise(9, 2, 3, list(range(1000)))
    assert noise(9, 2, 3, [999, 5, 0]) == [whole[999], whole[5], whole[0]]
    rows = [SampleRow(SamplingParams(seed=s), 2, 3) for s in (8, 9)]
    assert gumbel(rows, torch.arange(1000).expand(2, -1))[1].tolist() == whole

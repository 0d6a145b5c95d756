"""The noise of a draw: Gumbel numbers in fp64, fixed by (seed, choice, position, token id).

A counter-based hash, never a stream: whoever asks for a token's noise gets it, in any order, in any company, so that
a token is drawn alike with and without a draft before it. Steele, Lea and Flood, «Fast splittable pseudorandom number
generators», 2014: a row's key is mixed from seed, choice and position; its token's number is the mix of the key plus
token × the golden ratio, which is SplitMix64 started at the key.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from inference.sequence import SampleRow

GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WORD = (1 << 64) - 1


class Noise(Protocol):
    """Noise for R rows and C tokens of each: ids (R, C) → numbers (R, C), fp64."""

    def __call__(self, rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor: ...


def gumbel(rows: Sequence[SampleRow], ids_RC: Tensor) -> Tensor:
    """-log(-log(u)), u uniform in (0, 1)."""
    keys_R1 = torch.tensor([_signed(_key(row)) for row in rows], device=ids_RC.device)[:, None]
    bits_RC = _mix(keys_R1 + (ids_RC + 1) * _signed(GOLDEN))
    # 52 bits and a half: neither 0 nor 1, and exact in fp64.
    uniform_RC = (_shift(bits_RC, 12).to(torch.float64) + 0.5) * 2.0**-52
    return uniform_RC.log_().neg_().log_().neg_()


def _key(row: SampleRow) -> int:
    assert row.sampling.seed is not None
    key = _mix_int(row.sampling.seed & WORD)
    key = _mix_int(key + GOLDEN * (row.choice + 1) & WORD)
    return _mix_int(key + GOLDEN * (row.position + 1) & WORD)


def _mix_int(word: int) -> int:
    word = (word ^ word >> 30) * FIRST & WORD
    word = (word ^ word >> 27) * SECOND & WORD
    return word ^ word >> 31


def _mix(words: Tensor) -> Tensor:
    """`_mix_int` of each word; int64 multiplication wraps as unsigned does."""
    words = (words ^ _shift(words, 30)) * _signed(FIRST)
    words = (words ^ _shift(words, 27)) * _signed(SECOND)
    return words ^ _shift(words, 31)


def _shift(words: Tensor, count: int) -> Tensor:
    """Right shift that brings in zeros, on signed words."""
    return (words >> count) & ((1 << (64 - count)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word

"""Driving a Runner by hand: no engine, no scheduler, blocks as the test wants them."""

from collections.abc import Sequence as Items

import torch

from inference.config import EngineConfig
from inference.model.loader import LoadedModel
from inference.model.runner import Runner
from inference.protocol import SamplingParams
from inference.sequence import Batch, Chunk, Sequence

BLOCK_SIZE = 4


class NoText:
    """Tokens stay tokens."""

    def push(self, token_id: int) -> bool:
        return False

    def take(self) -> str:
        return ""

    def finish(self) -> str:
        return ""


def runner_of(model: LoadedModel, num_blocks: int = 64) -> Runner:
    return Runner(model, EngineConfig(block_size=BLOCK_SIZE, num_blocks=num_blocks))


def sequence_of(prompt: Items[int], blocks: Items[int]) -> Sequence:
    params = SamplingParams(seed=0, max_tokens=1000)
    return Sequence("r", 0, list(prompt), len(prompt), params, NoText(), blocks=list(blocks))


def consecutive(num: int, first: int = 0) -> list[int]:
    return list(range(first, first + num))


def scattered(num: int, first: int = 0) -> list[int]:
    """The same blocks as `consecutive`, odd ones first and backwards."""
    blocks = consecutive(num, first)
    return blocks[1::2][::-1] + blocks[::2]


def advance(runner: Runner, seq: Sequence, num: int, num_sampled: int = 0) -> torch.Tensor:
    """Compute the next `num` tokens of one sequence alone."""
    return advance_all(runner, [(seq, num, num_sampled)])


def advance_all(runner: Runner, wants: Items[tuple[Sequence, int, int]]) -> torch.Tensor:
    """One pass: (sequence, tokens to compute, rows to sample) each."""
    chunks = []
    for seq, num, num_sampled in wants:
        tokens = tuple(seq.tokens[seq.num_computed : seq.num_computed + num])
        assert len(tokens) == num
        chunks.append(Chunk(seq, seq.num_computed, tokens, num_sampled))
        seq.num_computed += num
    return runner.forward(Batch(chunks))


def greedy(runner: Runner, seq: Sequence, num_tokens: int, chunk: int = 1000) -> list[int]:
    """Plain decoding: the prompt in chunks, then a token a pass."""
    while seq.num_output < num_tokens:
        left = len(seq.tokens) - seq.num_computed
        take = min(left, chunk)
        logits = advance(runner, seq, take, 1 if take == left else 0)
        if take == left:
            seq.tokens.append(int(logits[0].argmax()))
    return seq.tokens[seq.prompt_len :]

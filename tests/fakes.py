"""Fakes for the two seams made for them: a model below the engine. (The gateway's fake engine is in tests/gateway.)

`FakeModel` keeps, in each row of its cache, a digest of the token there and of everything before it, and reads what
came before only through the block table. Its next token depends on that digest alone, so any slip of bookkeeping (a
stale row, a wrong block, a draft kept too long) changes the text. `plain_decode` says what it must write, without any
engine.
"""

import hashlib
from collections.abc import Sequence as Items

import torch

from inference.model.sampling import sample
from inference.protocol import SamplingParams
from inference.sequence import Batch, Chunk, SampleRow, Sequence

NUM_CONTEXTS = 4096
"""Distinct next-token distributions."""


class FakeModel:
    """A language model with a checkable cache. Logits (R, V) are float32."""

    def __init__(self, vocab_size: int = 64, num_blocks: int = 64, block_size: int = 4, copies: float = 0.0) -> None:
        """`copies`: how strongly a token leads to its successor id, so that texts repeat and drafts get accepted."""
        self.vocab_size = vocab_size
        self._block_size = block_size
        self._cache: list[bytes] = [b"stale"] * (num_blocks * block_size)
        noise = torch.Generator().manual_seed(7)
        self._table_CV = torch.randn(NUM_CONTEXTS, vocab_size, generator=noise)
        self._copies = copies
        self.rows = 0
        self.passes = 0

    def forward(self, batch: Batch) -> torch.Tensor:
        self.passes += 1
        self.rows += batch.num_rows
        contexts = [c for chunk in batch.chunks for c in self._compute(chunk)]
        return self.logits(contexts)

    def logits(self, contexts: Items[tuple[bytes, int]]) -> torch.Tensor:
        rows = [int.from_bytes(digest[:8], "little") % NUM_CONTEXTS for digest, _ in contexts]
        logits_RV = self._table_CV[rows].clone()
        for row, (_, token) in enumerate(contexts):
            logits_RV[row, (token + 1) % self.vocab_size] += self._copies
        return logits_RV

    def _compute(self, chunk: Chunk) -> list[tuple[bytes, int]]:
        """Write the chunk's rows into the cache; the contexts of its sampled rows."""
        contexts = []
        for position, token in enumerate(chunk.tokens, chunk.start):
            before = self._cache[self._slot(chunk.seq, position - 1)] if position else b""
            digest = digest_after(before, token)
            self._cache[self._slot(chunk.seq, position)] = digest
            contexts.append((digest, token))
        return contexts[len(contexts) - chunk.num_sampled :]

    def _slot(self, seq: Sequence, position: int) -> int:
        return seq.blocks[position // self._block_size] * self._block_size + position % self._block_size


class PlainText:
    """A `Text` over token ids: each id is one character."""

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self._stop = stop
        self._text = ""
        self._left = 0
        self._cut: int | None = None

    def push(self, token_id: int) -> bool:
        self._text += chr(0x4E00 + token_id)
        ends = [self._text.find(s) for s in self._stop if s in self._text]
        self._cut = min(ends) if ends else None
        return self._cut is not None

    def take(self) -> str:
        text, self._left = self._text[self._left :], len(self._text)
        return text

    def finish(self) -> str:
        return self._text[self._left : self._cut]


def digest_after(before: bytes, token: int) -> bytes:
    return hashlib.blake2b(before + token.to_bytes(4, "little"), digest_size=16).digest()


def make_sequence(
    prompt: Items[int],
    request_id: str = "r",
    choice: int = 0,
    stop: tuple[str, ...] = (),
    sampling: SamplingParams | None = None,
    **fields: object,
) -> Sequence:
    sampling = sampling or SamplingParams(temperature=0.0)
    filled = {"seed": 11 if sampling.seed is None else sampling.seed, "max_tokens": sampling.max_tokens or 16}
    return Sequence(
        request_id=request_id,
        choice=choice,
        tokens=list(prompt),
        prompt_len=len(prompt),
        sampling=sampling.model_copy(update=filled),
        text=PlainText(stop),
        **fields,  # type: ignore[arg-type]
    )


def plain_decode(model: FakeModel, seq: Sequence, eos: frozenset[int] = frozenset()) -> list[int]:
    """What `seq` must emit: one token at a time, no cache, no batch, no drafts."""
    digest, token = b"", 0
    for token in seq.tokens[: seq.prompt_len]:
        digest = digest_after(digest, token)
    output: list[int] = []
    text = PlainText(seq.text._stop)  # type: ignore[attr-defined]
    while len(output) < (seq.sampling.max_tokens or 0):
        row = SampleRow(seq.sampling, seq.choice, len(output))
        [token] = sample(model.logits([(digest, token)]), [row])
        output.append(token)
        digest = digest_after(digest, token)
        if token in eos or text.push(token):
            break
    return output

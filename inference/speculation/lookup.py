"""n-gram lookup: what followed the last time the request's own text stood where it stands now.

tokens   … a b c d e … a b c ·            the last n tokens, the longest n first, most recent place
               └─────── draft d e …       a draft that reaches its own beginning goes on in a circle
"""

from collections.abc import Sequence

from inference.config import LookupConfig
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposal


class NgramIndex:
    """n-gram → the position behind its most recent occurrence. Grows with the text, constant time a token."""

    def __init__(self, min_ngram: int, max_ngram: int) -> None:
        self._sizes = range(max_ngram, min_ngram - 1, -1)
        self._behind: dict[tuple[int, ...], int] = {}
        self._known = 0

    def match(self, tokens: Sequence[int]) -> int | None:
        """Where the last tokens stood before, the longest match first."""
        self._grow(tokens)
        grams = (tuple(tokens[len(tokens) - n :]) for n in self._sizes if n <= len(tokens))
        return next((self._behind[gram] for gram in grams if gram in self._behind), None)

    def _grow(self, tokens: Sequence[int]) -> None:
        """Learn the n-grams that something follows: those that end before the last token."""
        for end in range(self._known + 1, len(tokens)):
            for n in self._sizes:
                if n <= end:
                    self._behind[tuple(tokens[end - n : end])] = end
        self._known = max(self._known, len(tokens) - 1)


def circle(tokens: Sequence[int], start: int, length: int) -> tuple[int, ...]:
    """`length` tokens from `start` on; where they end, they repeat."""
    period = tuple(tokens[start : start + length])
    return (period * (length // len(period) + 1))[:length]


class LookupProposer:
    """Drafts from the request's own prompt and output, and from nothing else."""

    name = "lookup"

    def __init__(self, config: LookupConfig) -> None:
        self._config = config

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        return [self._draft(item) for item in batch.items]

    def _draft(self, item: DraftItem) -> Proposal:
        index = item.memory.get(self.name)
        if index is None:
            index = item.memory[self.name] = NgramIndex(self._config.min_ngram, self._config.max_ngram)
        start = index.match(item.tokens)
        if start is None or item.max_tokens < 1:
            return NO_DRAFT
        length = min(item.max_tokens, self._config.length or item.max_tokens)
        return Proposal(circle(item.tokens, start, length), self.name)

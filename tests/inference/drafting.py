"""What the tests of proposers share: a sequence that emits dictated tokens, seen as a proposer sees it."""

from collections.abc import Sequence as Items
from typing import Any

from inference.sequence import Prediction, Proposal, Spelling
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposer


def predict(*spellings: Items[int]) -> Prediction:
    """A prediction whose spellings have the same tokens at the same places as the first, as far as they go."""
    return Prediction(
        len(spellings[0]), tuple(Spelling(tuple(ids), tuple(range(len(ids)))) for ids in spellings if ids)
    )


class Writer:
    """One sequence. Emits what the test says and asks for a draft when the test asks."""

    def __init__(
        self,
        proposer: Proposer,
        prompt: Items[int] = (),
        prediction: Prediction | None = None,
        strict_resync: bool = False,
        cache_salt: str = "",
    ) -> None:
        self.tokens = list(prompt)
        self.memory: dict[str, Any] = {}
        self._proposer = proposer
        self._prompt_len = len(prompt)
        self._prediction = prediction
        self._strict_resync = strict_resync
        self._cache_salt = cache_salt

    def item(self, max_tokens: int = 100) -> DraftItem:
        return DraftItem(
            self.tokens,
            self._prompt_len,
            max_tokens,
            self.memory,
            self._prediction,
            self._strict_resync,
            self._cache_salt,
        )

    def emit(self, *tokens: int) -> "Writer":
        self.tokens.extend(tokens)
        return self

    def proposal(self, max_tokens: int = 100) -> Proposal:
        [proposal] = self._proposer.propose(DraftBatch([self.item(max_tokens)]))
        return proposal

    def draft(self, max_tokens: int = 100) -> list[int]:
        return list(self.proposal(max_tokens).tokens)


class Fixed:
    """A proposer that proposes what the test put into `answer`, or does as it says."""

    def __init__(self, name: str, *answer: int) -> None:
        self.name = name
        self.answer: tuple[int, ...] = answer
        self.seen: list[int] = []

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        self.seen.append(len(batch.items))
        return [self._one(item) for item in batch.items]

    def _one(self, item: DraftItem) -> Proposal:
        tokens = self.answer[: item.max_tokens]
        return Proposal(tokens, self.name) if tokens else NO_DRAFT

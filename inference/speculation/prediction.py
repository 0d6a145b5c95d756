"""The client's predicted output as a drafter: what is expected to follow is what follows in the prediction.

Keeps a `Pointer` a sequence; an item without a prediction, or with an empty one, gets no draft.
"""

from bisect import bisect_left

from inference.sequence import Prediction, Spelling
from inference.speculation.pointer import Pointer
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposal


class PredictionProposer:
    """Amortised constant time a token; the index behind it is built once a sequence, on the first divergence."""

    name = "prediction"

    def __init__(self, max_tokens: int | None = None) -> None:
        """`max_tokens`: draft only from so many of a prediction's tokens, the first ones."""
        self._max_tokens = max_tokens

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        return [self._draft(item) for item in batch.items]

    def _draft(self, item: DraftItem) -> Proposal:
        if item.prediction is None or not item.prediction.spellings:
            return NO_DRAFT
        pointer = item.memory.get(self.name)
        if pointer is None:
            prediction = head(item.prediction, self._max_tokens)
            pointer = item.memory[self.name] = Pointer(prediction, item.prompt_len, item.strict_resync)
        pointer.follow(item.tokens)
        if pointer.at is None:
            return NO_DRAFT
        upcoming = slice(pointer.at, pointer.at + item.max_tokens)
        tokens = pointer.reference.ids[upcoming]
        return Proposal(tokens, self.name, pointer.reference.origins[upcoming]) if tokens else NO_DRAFT


def head(prediction: Prediction, max_tokens: int | None) -> Prediction:
    """Its first `max_tokens` tokens as given, in each spelling."""
    if max_tokens is None or max_tokens >= prediction.num_tokens:
        return prediction
    cuts = ((spelling, bisect_left(spelling.origins, max_tokens)) for spelling in prediction.spellings)
    return Prediction(max_tokens, tuple(Spelling(one.ids[:cut], one.origins[:cut]) for one, cut in cuts))

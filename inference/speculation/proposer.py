"""The one seam of drafting: a batch of sequences in, a proposal for each out.

Every proposer takes the same arguments and keeps what it remembers of a sequence in `DraftItem.memory`, so there
is nothing to free and nothing that one request could see of another. A proposer only suggests: whatever it says,
`verify` lets only the target's own tokens through.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from inference.sequence import NO_DRAFT, Prediction, Proposal

__all__ = ["NO_DRAFT", "DraftBatch", "DraftItem", "Learner", "Proposal", "Proposer"]


@dataclass(frozen=True, slots=True)
class DraftItem:
    """One sequence, seen by a proposer."""

    tokens: Items[int]
    """Committed tokens, prompt and output; read only."""
    prompt_len: int
    max_tokens: int
    """Draft at most this many; 0: only keep up."""
    memory: dict[str, Any]
    """The proposer's own notes live under its `name`."""
    prediction: Prediction | None = None
    strict_resync: bool = False
    cache_salt: str = ""
    """Opaque; what a proposer learns from one sequence it may use for others of the same salt alone."""


@dataclass(frozen=True, slots=True)
class DraftBatch:
    """The sequences to draft for, in the order of the step."""

    items: Items[DraftItem]
    rows: int = 1
    """Rows that the coming pass computes anyway."""


class Proposer(Protocol):
    """Drafts tokens. `propose` gives one proposal an item, at most `item.max_tokens` long each."""

    name: str

    def propose(self, batch: DraftBatch) -> list[Proposal]: ...


@runtime_checkable
class Learner(Proposer, Protocol):
    """One that learns from sequences that ended."""

    def finish(self, item: DraftItem) -> None: ...

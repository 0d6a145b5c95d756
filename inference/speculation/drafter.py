"""What the engine holds of speculation: sequences in, drafts out, results back.

Never raises: whatever goes wrong in here costs a draft, never a request. Knows no model and no scheduler.
"""

from collections.abc import Sequence as Items
from typing import Any

from inference.config import SpeculationConfig
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import NO_DRAFT, DraftItem, Proposal


class Drafter:
    """A deployment's drafters under one configuration. Replaced, not changed, when the configuration changes."""

    def __init__(self, config: SpeculationConfig, cost: PassCost, vocab_size: int) -> None:
        self.config = config
        self.faults: dict[str, int] = {}
        """Proposer → drafts lost to its own faults."""
        self._cost = cost
        self._vocab_size = vocab_size

    def draft(self, items: list[DraftItem], committed_rows: int) -> list[Proposal]:
        """One draft an item, already cut to what pays and to `item.max_tokens`.

        `committed_rows`: the rows that the coming pass computes anyway.
        """
        return [NO_DRAFT] * len(items)

    def observe(self, memory: dict[str, Any], draft: Proposal, accepted: int) -> None:
        """The target kept the first `accepted` tokens of `draft`, which was verified for the sequence of `memory`."""


def no_drafts(items: Items[DraftItem]) -> list[Proposal]:
    return [NO_DRAFT] * len(items)

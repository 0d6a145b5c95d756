"""What the engine holds of speculation: sequences in, drafts out, results back.

Never raises: whatever goes wrong in a proposer costs its draft, never a request. Knows no model and no scheduler.
"""

import logging
from collections.abc import Sequence as Items
from dataclasses import replace
from typing import Any

from inference.config import SpeculationConfig
from inference.speculation.auto_disable import Resting, limit_of
from inference.speculation.cascade import Cascade
from inference.speculation.draft_length import DraftLength, Load
from inference.speculation.guard import Guard
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Learner, Proposal, Proposer


class Drafter:
    """A deployment's drafters under one configuration. Replaced, not changed, when the configuration changes."""

    def __init__(
        self, config: SpeculationConfig, cost: PassCost, vocab_size: int, proposers: Items[Proposer] = ()
    ) -> None:
        self.config = config
        self._resting = {one.name: Resting(one, limit_of(one.name, config.auto_disable)) for one in proposers}
        self._guards = [Guard(resting, vocab_size) for resting in self._resting.values()]
        self._learners = [one for one in proposers if isinstance(one, Learner)]
        self._length = DraftLength(config.adaptive, cost)
        self._cascade = Cascade(self._guards, self._length)

    @property
    def faults(self) -> dict[str, int]:
        """Proposer → steps whose drafts it lost by its own fault."""
        return {guard.name: guard.faults for guard in self._guards}

    @property
    def resting(self) -> tuple[str, ...]:
        """Proposers that hold back now, since too little of theirs was accepted."""
        return tuple(name for name, one in self._resting.items() if one.rests)

    def draft(self, items: list[DraftItem], committed_rows: int) -> list[Proposal]:
        """One draft an item, already cut to what pays and to `item.max_tokens`.

        `committed_rows`: the rows that the coming pass computes anyway, each of them worth a token.
        """
        rows = max(1, committed_rows)
        if not self._guards or self._is_crowded(rows):
            return [NO_DRAFT] * len(items)
        items = [self._within(item) for item in items]
        proposals = self._cascade.propose(DraftBatch(items, rows))
        load = Load(rows, rows)
        return [self._length.take(item, proposal, load) for item, proposal in zip(items, proposals, strict=True)]

    def observe(self, memory: dict[str, Any], draft: Proposal, accepted: int) -> None:
        """The target kept the first `accepted` tokens of `draft`, which it was shown for the sequence of `memory`."""
        if draft:
            self._length.observe(memory, draft, accepted)
            self._resting[draft.proposer].observe(len(draft), accepted)

    def finish(self, item: DraftItem) -> None:
        """The sequence ended, and nothing more is drafted for it."""
        for learner in self._learners:
            try:
                learner.finish(item)
            except Exception as fault:  # noqa: BLE001  what it does not learn costs drafts, never a request
                logging.getLogger(__name__).warning(
                    "proposer %s learnt nothing: %s", learner.name, type(fault).__name__
                )

    def _is_crowded(self, running: int) -> bool:
        most = self.config.auto_disable.max_running
        return most is not None and running > most

    def _within(self, item: DraftItem) -> DraftItem:
        most = max(0, min(item.max_tokens, self.config.adaptive.maximum))
        return item if most == item.max_tokens else replace(item, max_tokens=most)

"""A drafter that holds back while its drafts are not accepted, and then looks again: a rest, never a latch.

    watched   once `EVIDENCE` of its tokens were verified, less than `min_acceptance` of the latest accepted → resting
    resting   it proposes nothing for `REST` steps → watched again, from nothing

The acceptance is that of the whole deployment. A client's prediction is left out: it is judged on its own request
(`draft_length`), so that one client's stale texts switch nothing off for the others.
"""

from collections import deque

from inference.speculation.proposer import NO_DRAFT, DraftBatch, Proposal, Proposer
from inference.speculation_config import AutoDisableConfig

EVIDENCE = 128
"""Verified tokens before it is judged: also the price of looking again."""
WINDOW = 512
"""Verified tokens that are remembered."""
REST = 256
"""Steps without a proposal."""


def limit_of(proposer: str, config: AutoDisableConfig) -> float | None:
    return None if proposer == "prediction" else config.min_acceptance


class Resting:
    """Wears the proposer's face and name. `min_acceptance` None: it never rests."""

    def __init__(self, proposer: Proposer, min_acceptance: float | None) -> None:
        self.name = proposer.name
        self._proposer = proposer
        self._limit = min_acceptance
        self._drafts: deque[tuple[int, int]] = deque()
        self._drafted = self._accepted = 0
        self._rest = 0

    @property
    def rests(self) -> bool:
        return self._rest > 0

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        if not self._rest:
            return self._proposer.propose(batch)
        self._rest -= 1
        return [NO_DRAFT] * len(batch.items)

    def observe(self, drafted: int, accepted: int) -> None:
        """The target kept `accepted` of `drafted` tokens."""
        if self._limit is None or self._rest:
            return
        self._count(drafted, accepted)
        while self._drafted - self._drafts[0][0] >= WINDOW:
            old_drafted, old_accepted = self._drafts.popleft()
            self._drafted, self._accepted = self._drafted - old_drafted, self._accepted - old_accepted
        if self._drafted >= EVIDENCE and self._accepted < self._limit * self._drafted:
            self._drafts.clear()
            self._drafted = self._accepted = 0
            self._rest = REST

    def _count(self, drafted: int, accepted: int) -> None:
        self._drafts.append((drafted, accepted))
        self._drafted += drafted
        self._accepted += accepted

"""A proposer that may fail, as one that does not: what goes wrong costs its drafts of that step, nothing else.

A fault is an exception, the wrong number of proposals, one that is too long, or ids that no token has. After
`LIMIT` faulty steps in a row the proposer is left alone for `REST` steps, then tried again with a clean memory.
"""

import logging

from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposal, Proposer

LIMIT = 3
REST = 64


class FaultyProposal(Exception):
    """What a proposer said cannot be used; says why."""


def checked(proposal: Proposal, item: DraftItem, vocab_size: int) -> Proposal:
    """The proposal, if the target could be shown it."""
    if len(proposal.tokens) > max(0, item.max_tokens):
        raise FaultyProposal(f"{len(proposal.tokens)} tokens where {item.max_tokens} were asked for")
    if not all(type(token) is int and 0 <= token < vocab_size for token in proposal.tokens):
        raise FaultyProposal(f"something else than token ids of 0 … {vocab_size - 1}")
    if proposal.origins and len(proposal.origins) != len(proposal.tokens):
        raise FaultyProposal(f"{len(proposal.origins)} origins for {len(proposal.tokens)} tokens")
    return proposal


class Guard:
    """Wears the proposer's face and name. Counts its faults."""

    def __init__(self, proposer: Proposer, vocab_size: int) -> None:
        self.name = proposer.name
        self.faults = 0
        self._proposer = proposer
        self._vocab_size = vocab_size
        self._in_a_row = 0
        self._rest = 0

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        if self._rest > 0:
            self._rest -= 1
            return [NO_DRAFT] * len(batch.items)
        try:
            proposals = self._ask(batch)
        except Exception as fault:  # noqa: BLE001  whatever a proposer raises, the request must not feel it
            return self._suffer(batch, fault)
        self._in_a_row = 0
        return proposals

    def _ask(self, batch: DraftBatch) -> list[Proposal]:
        pairs = zip(self._proposer.propose(batch), batch.items, strict=True)
        return [checked(proposal, item, self._vocab_size) for proposal, item in pairs]

    def _suffer(self, batch: DraftBatch, fault: Exception) -> list[Proposal]:
        """Count, forget what the proposer may have left half done, and rest after too many."""
        self.faults += 1
        self._in_a_row += 1
        why = fault if isinstance(fault, FaultyProposal) else type(fault).__name__  # a message could hold text
        logging.getLogger(__name__).warning("proposer %s failed, its drafts are left out: %s", self.name, why)
        for item in batch.items:
            item.memory.pop(self.name, None)
        if self._in_a_row >= LIMIT:
            self._in_a_row, self._rest = LIMIT - 1, REST
        return [NO_DRAFT] * len(batch.items)

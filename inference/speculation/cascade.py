"""Several proposers as one: of their proposals for a sequence, the one that gains most for what it costs.

Every member sees every sequence at every step, so that each keeps up whoever wins, and every proposal is judged by
what was emitted where it was expected, whether it won or not. A proposal keeps its proposer's name.
"""

from collections.abc import Sequence as Items

from inference.speculation.draft_length import DraftLength, Load
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposal, Proposer


class Cascade:
    """Itself a proposer. Of members that say the same, the earlier wins."""

    name = "cascade"

    def __init__(self, members: Items[Proposer], length: DraftLength) -> None:
        self.members = tuple(members)
        self._length = length

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        offers = [member.propose(batch) for member in self.members]
        return [
            self._choose(item, proposals, batch.rows) for item, *proposals in zip(batch.items, *offers, strict=True)
        ]

    def _choose(self, item: DraftItem, proposals: Items[Proposal], rows: int) -> Proposal:
        for member, proposal in zip(self.members, proposals, strict=True):
            self._length.record(item.memory, member.name).hindsight(item.tokens, proposal.tokens)
        offered = [proposal for proposal in proposals if proposal]
        if len(offered) < 2:
            return offered[0] if offered else NO_DRAFT
        plans = [self._length.plan(item, proposal, Load(rows, rows)) for proposal in offered]
        best = max(range(len(offered)), key=lambda i: plans[i].worth)
        return first_to_say(offered, offered[best].tokens[: plans[best].length])


def first_to_say(offered: Items[Proposal], tokens: tuple[int, ...]) -> Proposal:
    """The earliest member's proposal that begins with `tokens`: who says the same first, is credited with it."""
    return next(proposal for proposal in offered if proposal.tokens[: len(tokens)] == tokens)

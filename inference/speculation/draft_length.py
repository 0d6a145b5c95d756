"""The one owner of draft length: how many of the tokens a proposer has are worth a row each.

    ladder   start, doubled while drafts are wholly kept, back to what was kept on a miss
    cost     the k ≤ ladder with the most confirmed tokens a second:

             (tokens the pass gives anyway + E(k)) ÷ seconds(rows computed anyway + k)

E comes from the fate of every proposal, drafted or not. What a pass costs is measured, never assumed; until it is,
the ladder stands alone. A length of 0 is possible and never final: every so often a short draft asks again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference.config import AdaptiveConfig
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import NO_DRAFT, DraftItem, Proposal
from inference.speculation.record import HOT_PATIENCE, LONGEST_PATIENCE, PATIENCE, Record, record_of

RUNGS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True, slots=True)
class Plan:
    """A length, the tokens it is expected to add, and the tokens a second that the whole pass then gives."""

    length: int
    gain: float
    worth: float


@dataclass(slots=True)
class Load:
    """The coming pass so far: its rows, and the tokens they are expected to give."""

    rows: int
    tokens: float


def climb(ladder: int, drafted: int, accepted: int, config: AdaptiveConfig) -> int:
    """The next rung: double on full acceptance, else what was kept."""
    if accepted == drafted:
        return min(config.maximum, 2 * ladder)
    return min(config.maximum, max(config.minimum, accepted))


def rungs(longest: int) -> list[int]:
    """The lengths worth comparing, 0 and `longest` among them."""
    return [*(k for k in RUNGS if k < longest), longest]


def best(plans: Sequence[Plan]) -> Plan:
    """The most tokens a second; of equals the shortest."""
    return max(plans, key=lambda plan: plan.worth)


class DraftLength:
    """Keeps its records in the sequences' memory; shares the pass cost with the whole engine."""

    def __init__(self, config: AdaptiveConfig, cost: PassCost) -> None:
        self._config = config
        self._cost = cost

    def plan(self, item: DraftItem, proposal: Proposal, load: Load) -> Plan:
        """What to draft of `proposal`. Changes nothing that counts."""
        plans = self._plans(item, proposal, load)
        return best(plans) if self._is_bounded(load.rows, plans[-1].length) else plans[-1]

    def take(self, item: DraftItem, proposal: Proposal, load: Load) -> Proposal:
        """The draft to verify; its rows and expected tokens join the load."""
        proposal = proposal.cut(item.max_tokens)
        if not proposal:
            return NO_DRAFT
        plan = self._turn(item, proposal, self.plan(item, proposal, load), load)
        load.rows += plan.length
        load.tokens += plan.gain
        return proposal.cut(plan.length) if plan.length else NO_DRAFT

    def observe(self, memory: dict[str, Any], draft: Proposal, accepted: int) -> None:
        """The target kept the first `accepted` tokens of `draft`."""
        record = self.record(memory, draft.proposer)
        record.ladder = climb(record.ladder, len(draft), accepted, self._config)
        if accepted > 0:
            record.patience = PATIENCE

    def record(self, memory: dict[str, Any], proposer: str) -> Record:
        return record_of(memory, proposer, min(self._config.start, self._config.maximum))

    def _plans(self, item: DraftItem, proposal: Proposal, load: Load) -> list[Plan]:
        record = self.record(item.memory, proposal.proposer)
        longest = min(record.ladder, len(proposal))
        expected = record.survival.expected(longest)
        return [self._weigh(k, expected[k], load) for k in rungs(longest)]

    def _weigh(self, length: int, gain: float, load: Load) -> Plan:
        return Plan(length, gain, (load.tokens + gain) / self._cost.nearest(load.rows + length))

    def _is_bounded(self, rows: int, length: int) -> bool:
        """Only measured costs bound a draft: a length never tried is tried, and so measured."""
        ends = (self._cost.seconds(rows), self._cost.seconds(rows + length))
        return self._config.mode == "cost" and None not in ends

    def _turn(self, item: DraftItem, proposal: Proposal, plan: Plan, load: Load) -> Plan:
        """Now and then the other choice: a draft where none pays, none where that was never measured."""
        record = self.record(item.memory, proposal.proposer)
        if plan.length > 0 and not self._lacks_plain(load.rows):
            record.waited = 0
            return plan
        record.waited += 1
        if record.waited < (HOT_PATIENCE if record.is_hot else record.patience):
            return plan
        record.waited = 0
        if plan.length > 0:
            return Plan(0, 0.0, 0.0)
        record.patience = min(LONGEST_PATIENCE, 2 * record.patience)
        return best(self._plans(item, proposal, load)[1:])

    def _lacks_plain(self, rows: int) -> bool:
        return self._config.mode == "cost" and self._cost.is_measured and self._cost.seconds(rows) is None

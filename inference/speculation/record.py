"""What one proposer's proposals came to on one sequence. Lives in the sequence's memory and ends with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference.speculation.survival import Survival

NAME = "draft_length"
PATIENCE = 16
"""Proposals passed over before one is drafted again; doubled while that does not pay."""
LONGEST_PATIENCE = 128


@dataclass(slots=True)
class Record:
    """The ladder's rung, the chances by place, and what the proposer last expected."""

    ladder: int
    survival: Survival
    waited: int = 0
    patience: int = PATIENCE
    expected: tuple[int, ...] = ()
    expected_at: int = 0

    def hindsight(self, tokens: Sequence[int], proposed: tuple[int, ...]) -> None:
        """Compare what was expected with what was emitted since, whoever drafted; then expect `proposed`."""
        if self.expected and self.expected_at < len(tokens):
            emitted = tokens[self.expected_at : self.expected_at + len(self.expected)]
            self.survival.observe(self.expected, emitted)
        self.expected, self.expected_at = proposed, len(tokens)


def record_of(memory: dict[str, Any], proposer: str, start: int) -> Record:
    """The record of `proposer` on the sequence of `memory`, made on first use."""
    records: dict[str, Record] = memory.setdefault(NAME, {})
    if proposer not in records:
        records[proposer] = Record(start, Survival(proposer))
    return records[proposer]

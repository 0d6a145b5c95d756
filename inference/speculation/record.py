"""What one proposer's proposals came to on one sequence. Lives in the sequence's memory and ends with it.

No request learns from another: priors are constants, the rest is the sequence's own past.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference.speculation.survival import Survival

NAME = "draft_length"
PATIENCE = 16
"""Proposals passed over before one is drafted again; doubled while that does not pay."""
HOT_PATIENCE = 4
"""The same while what is passed over turns out right: asking then gives tokens, and may correct a cost."""
LONGEST_PATIENCE = 128
COLD = {"prediction": (0.85, 0.97), "lookup": (0.5, 0.8)}
"""Prior chances after a contradicted proposal: of the first token, of each later one."""
COLD_UNKNOWN = (0.5, 0.8)
HOT = (0.95, 0.98)
"""The same after one that was right as far as is known: a text that is being copied goes on being copied."""


@dataclass(slots=True)
class Record:
    """The ladder's rung, the chances by place, and what the proposer last expected."""

    ladder: int
    cold: Survival
    hot: Survival
    is_hot: bool = False
    waited: int = 0
    """Proposals in a row that got another turn than they would have taken."""
    patience: int = PATIENCE
    expected: tuple[int, ...] = ()
    expected_at: int = 0

    @property
    def survival(self) -> Survival:
        """The chances as things stand."""
        return self.hot if self.is_hot else self.cold

    def hindsight(self, tokens: Sequence[int], proposed: tuple[int, ...]) -> None:
        """Compare what was expected with what was emitted since, whoever drafted; then expect `proposed`."""
        if self.expected and self.expected_at < len(tokens):
            emitted = tokens[self.expected_at : self.expected_at + len(self.expected)]
            self.is_hot = self.survival.observe(self.expected, emitted)
        self.expected, self.expected_at = proposed, len(tokens)


def record_of(memory: dict[str, Any], proposer: str, start: int) -> Record:
    """The record of `proposer` on the sequence of `memory`, made on first use."""
    records: dict[str, Record] = memory.setdefault(NAME, {})
    if proposer not in records:
        records[proposer] = Record(start, Survival(COLD.get(proposer, COLD_UNKNOWN)), Survival(HOT))
    return records[proposer]

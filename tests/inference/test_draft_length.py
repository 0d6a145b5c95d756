"""Draft length: the ladder 8 → 64, bounded by what a pass of that many rows costs, never at 0 for good."""

from typing import Any

import pytest

from inference.config import AdaptiveConfig
from inference.sequence import NO_DRAFT, Proposal
from inference.speculation.draft_length import DraftLength, Load, climb, rungs
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftItem
from inference.speculation.record import HOT_PATIENCE, LONGEST_PATIENCE, PATIENCE

LADDER = AdaptiveConfig(mode="schedule")
COST = AdaptiveConfig(mode="cost")


def cost_of(*passes: tuple[int, float]) -> PassCost:
    cost = PassCost()
    for rows, seconds in passes:
        for _ in range(2):
            cost.observe(rows, seconds)
    return cost


FLAT = ((1, 0.020), (8, 0.020), (65, 0.020))
STEEP = ((1, 0.010), (2, 0.020), (8, 0.080), (65, 0.650))
"""A row costs as much as a pass: no draft can pay."""


class Subject:
    """One sequence's drafts of one proposer that has a hundred tokens to offer."""

    def __init__(self, config: AdaptiveConfig, cost: PassCost, proposer: str = "lookup") -> None:
        self.memory: dict[str, Any] = {}
        self.proposer = proposer
        self._length = DraftLength(config, cost)

    def length(self, rows: int = 1, tokens: float = 1.0, max_tokens: int = 100, offered: int = 100) -> int:
        item = DraftItem([], 0, max_tokens, self.memory)
        return len(self._length.take(item, Proposal((7,) * offered, self.proposer), Load(rows, tokens)))

    def verified(self, drafted: int, accepted: int) -> "Subject":
        self._length.observe(self.memory, Proposal((7,) * drafted, self.proposer), accepted)
        return self

    def right(self, times: int = 30, kept: int = 1) -> "Subject":
        return self.learns(times, (7,) * 64, (7,) * kept)

    def wrong(self, times: int = 30) -> "Subject":
        return self.learns(times, (7,) * 64, (8,))

    def learns(self, times: int, proposed: tuple[int, ...], emitted: tuple[int, ...]) -> "Subject":
        record = self._length.record(self.memory, self.proposer)
        for _ in range(times):
            record.hindsight([], proposed)
            record.hindsight(emitted, ())
        return self


def test_the_ladder_starts_at_eight_and_doubles_to_the_maximum() -> None:
    subject = Subject(LADDER, PassCost())
    lengths = []
    for _ in range(5):
        lengths.append(subject.length())
        subject.verified(lengths[-1], lengths[-1])
    assert lengths == [8, 16, 32, 64, 64]


@pytest.mark.parametrize(("accepted", "then"), [(0, 4), (3, 4), (4, 4), (7, 7)])
def test_a_partial_miss_falls_to_what_was_kept(accepted: int, then: int) -> None:
    assert Subject(LADDER, PassCost()).verified(8, accepted).length() == then


def test_the_ladder_keeps_its_bounds() -> None:
    config = AdaptiveConfig(start=8, minimum=4, maximum=6)
    assert climb(6, 6, 6, config) == 6
    assert climb(6, 8, 7, config) == 6
    assert Subject(AdaptiveConfig(mode="schedule", start=8, maximum=6), PassCost()).length() == 6


def test_each_proposer_and_each_sequence_climbs_its_own_ladder() -> None:
    subject = Subject(LADDER, PassCost()).verified(8, 8)
    subject.proposer = "prediction"
    assert subject.length() == 8
    subject.proposer = "lookup"
    assert subject.length() == 16
    assert Subject(LADDER, PassCost()).length() == 8


def test_never_more_than_is_offered_or_allowed() -> None:
    subject = Subject(LADDER, PassCost())
    assert subject.length(offered=3) == 3
    assert subject.length(max_tokens=5) == 5
    assert subject.length(max_tokens=0) == 0
    assert DraftLength(LADDER, PassCost()).take(DraftItem([], 0, 9, {}), NO_DRAFT, Load(1, 1.0)) is NO_DRAFT


def test_a_draft_joins_the_load_of_the_pass() -> None:
    load = Load(3, 3.0)
    draft = DraftLength(LADDER, PassCost()).take(DraftItem([], 0, 2, {}), Proposal((7, 7, 7), "lookup"), load)
    assert len(draft) == 2
    assert (load.rows, load.tokens) == (5, pytest.approx(3.9))


def test_until_passes_are_measured_the_ladder_stands_alone() -> None:
    assert Subject(COST, PassCost()).wrong().length() == 8
    assert Subject(COST, cost_of((1, 0.1), (2, 0.9))).wrong().length() == 8, "9 rows were never measured"


def test_the_schedule_asks_no_price() -> None:
    assert Subject(LADDER, cost_of(*STEEP)).wrong().length() == 8


def test_where_rows_are_free_the_whole_rung_is_drafted() -> None:
    assert Subject(COST, cost_of(*FLAT)).length() == 8


def test_where_rows_cost_as_much_as_passes_nothing_is_drafted() -> None:
    assert Subject(COST, cost_of(*STEEP)).wrong().length() == 0


def test_the_best_length_is_the_one_with_most_tokens_a_second() -> None:
    """h = 0.5, 0.8, 0.8 …: 1.5/1.2, 1.9/1.4, 2.22/1.6, 2.476/1.8 → 1.388 at three, less at two and at four."""
    cost = cost_of((1, 1.0), (65, 13.8))
    assert Subject(COST, cost).length() == 3
    worth = [(1 + e) / (1 + 0.2 * k) for k, e in enumerate([0, 0.5, 0.9, 1.22, 1.476])]
    assert max(worth) == worth[3]


def test_a_loaded_pass_leaves_less_to_a_draft() -> None:
    """Many sequences: each further row costs the tokens of all of them."""
    cost = cost_of((1, 0.010), (9, 0.012), (32, 0.040), (100, 0.200))
    alone, loaded = Subject(COST, cost), Subject(COST, cost)
    assert alone.length(rows=1, tokens=1.0) == 8
    assert loaded.length(rows=32, tokens=32.0) == 0


def test_a_length_of_zero_asks_again_ever_more_rarely_and_never_stops_asking() -> None:
    subject = Subject(COST, cost_of(*STEEP)).wrong()
    lengths = [subject.length() for _ in range(PATIENCE + 2 * PATIENCE + 4 * PATIENCE)]
    asked = [turn + 1 for turn, length in enumerate(lengths) if length]
    assert asked == [PATIENCE, 3 * PATIENCE, 7 * PATIENCE]
    later = [subject.length() for _ in range(3 * LONGEST_PATIENCE)]
    assert sum(length > 0 for length in later) == 3
    assert max(lengths) <= 4


def test_where_the_passed_over_turns_out_right_it_asks_often() -> None:
    """A pass measured while the machine was busy must not cost a copied file its drafts for long."""
    subject = Subject(COST, cost_of(*STEEP)).right(kept=64)
    lengths = [subject.length() for _ in range(4 * HOT_PATIENCE)]
    assert [turn + 1 for turn, length in enumerate(lengths) if length] == [HOT_PATIENCE * i for i in (1, 2, 3, 4)]


def test_an_accepted_draft_makes_it_ask_sooner_again() -> None:
    subject = Subject(COST, cost_of(*STEEP)).wrong()
    assert sum(subject.length() > 0 for _ in range(3 * PATIENCE)) == 2
    subject.verified(1, 1)
    assert [subject.length() > 0 for _ in range(PATIENCE)][-1]


def test_a_proposal_that_would_have_been_right_counts_though_it_was_not_drafted() -> None:
    cost = cost_of((1, 0.010), (5, 0.030), (9, 0.050))
    subject = Subject(COST, cost).wrong()
    assert subject.length() == 0
    assert subject.right(kept=1).length() > 0


def test_a_pass_without_draft_is_tried_now_and_then_until_one_was_measured() -> None:
    """Always drafting, it would never learn what drafting is to be compared with."""
    subject = Subject(COST, cost_of((9, 0.1), (65, 0.4)))
    lengths = [subject.length() for _ in range(2 * PATIENCE)]
    assert [turn + 1 for turn, length in enumerate(lengths) if not length] == [PATIENCE, 2 * PATIENCE]


def test_what_is_compared_includes_both_ends() -> None:
    assert rungs(0) == [0]
    assert rungs(5) == [0, 1, 2, 3, 4, 5]
    assert rungs(64) == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]

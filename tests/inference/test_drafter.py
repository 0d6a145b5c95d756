"""What the engine holds never raises: a proposer's fault costs its draft and nothing else."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.config import (
    AdaptiveConfig,
    EngineConfig,
    LookupConfig,
    PredictionConfig,
    SpeculationConfig,
)
from inference.engine.engine import Engine
from inference.sequence import Proposal
from inference.speculation.build import build_drafter, build_proposers
from inference.speculation.drafter import Drafter
from inference.speculation.guard import LIMIT, REST
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftBatch, DraftItem
from tests.fakes import FakeModel, make_sequence, plain_decode
from tests.inference.drafting import Fixed, predict

SCHEDULE = SpeculationConfig(adaptive=AdaptiveConfig(mode="schedule"))
VOCABULARY = 100


class Faulty(Fixed):
    """Does what the test says, as long as it says so."""

    def __init__(self, result: Any) -> None:
        super().__init__("faulty")
        self.result = result

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        self.seen.append(len(batch.items))
        for item in batch.items:
            item.memory[self.name] = "half done"
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # type: ignore[no-any-return]


def item(max_tokens: int = 10, tokens: tuple[int, ...] = (1, 2, 3)) -> DraftItem:
    return DraftItem(tokens, len(tokens), max_tokens, {})


def of(*tokens: Any, origins: tuple[int, ...] = ()) -> list[Proposal]:
    return [Proposal(tokens, "faulty", origins)]


FAULTS = [
    pytest.param(RuntimeError("secret text"), id="raises"),
    pytest.param(of(5, VOCABULARY), id="an id beyond the vocabulary"),
    pytest.param(of(5, -1), id="a negative id"),
    pytest.param(of(5, 1.5), id="no integer"),
    pytest.param(of(5, None), id="no number"),
    pytest.param(of(*range(11)), id="too many tokens"),
    pytest.param(of(5, 6, origins=(1,)), id="origins that do not fit"),
    pytest.param([], id="too few proposals"),
    pytest.param(of(1) * 2, id="too many proposals"),
    pytest.param(None, id="no list"),
    pytest.param([None], id="no proposal"),
]


@pytest.mark.parametrize("result", FAULTS)
def test_a_fault_costs_the_drafts_of_its_proposer_alone(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    faulty, sound = Faulty(result), Fixed("sound", 7, 8)
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [faulty, sound])
    asked = item()
    with caplog.at_level(logging.WARNING):
        [draft] = drafter.draft([asked], 1)
    assert (draft.tokens, draft.proposer) == ((7, 8), "sound")
    assert drafter.faults == {"faulty": 1, "sound": 0}
    assert "faulty" not in asked.memory, "what it left half done is gone"
    assert "faulty" in caplog.text
    assert "secret text" not in caplog.text


def test_three_faults_in_a_row_give_it_a_rest_and_then_another_chance() -> None:
    faulty = Faulty(RuntimeError())
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [faulty])
    for _ in range(LIMIT + REST):
        assert not drafter.draft([item()], 1)[0]
    assert len(faulty.seen) == LIMIT == drafter.faults["faulty"]
    faulty.result = of(5)
    assert drafter.draft([item()], 1)[0].tokens == (5,)
    assert drafter.draft([item()], 1)[0].tokens == (5,)


def test_a_proposer_that_fails_its_chance_rests_at_once() -> None:
    faulty = Faulty(RuntimeError())
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [faulty])
    for _ in range(LIMIT + REST + 1 + REST):
        drafter.draft([item()], 1)
    assert len(faulty.seen) == LIMIT + 1


def test_faults_with_successes_between_are_forgiven() -> None:
    faulty = Faulty(RuntimeError())
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [faulty])
    for result in (RuntimeError(), RuntimeError(), of(5)) * 3:
        faulty.result = result
        drafter.draft([item()], 1)
    assert drafter.draft([item()], 1)[0].tokens == (5,)
    assert drafter.faults == {"faulty": 6}


def test_drafts_come_cut_to_the_ladder_and_to_what_may_be_drafted() -> None:
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [Fixed("sound", *range(90))])
    assert [len(d) for d in drafter.draft([item(50), item(3), item(0)], 3)] == [8, 3, 0]


def test_no_proposer_is_asked_for_more_than_could_ever_be_drafted() -> None:
    asked = []

    class Curious(Fixed):
        def propose(self, batch: DraftBatch) -> list[Proposal]:
            asked.extend(item.max_tokens for item in batch.items)
            return super().propose(batch)

    Drafter(SCHEDULE, PassCost(), VOCABULARY, [Curious("curious", 1)]).draft([item(10**6), item(7)], 1)
    assert asked == [64, 7]


def test_what_was_accepted_lengthens_the_next_draft_of_that_sequence() -> None:
    drafter = Drafter(SCHEDULE, PassCost(), VOCABULARY, [Fixed("sound", *range(90))])
    one, other = item(90), item(90)
    [draft, _] = drafter.draft([one, other], 2)
    drafter.observe(one.memory, draft, accepted=8)
    drafter.observe(other.memory, Proposal(), accepted=0)
    assert [len(d) for d in drafter.draft([one, other], 2)] == [16, 8]


def test_a_pass_that_fills_up_drafts_less_for_those_who_come_last() -> None:
    cost = PassCost()
    for rows, seconds in ((1, 0.01), (12, 0.01), (16, 0.08), (64, 0.8), (128, 9.9)) * 2:
        cost.observe(rows, seconds)
    drafter = Drafter(SpeculationConfig(), cost, VOCABULARY, [Fixed("prediction", *range(90))])
    lengths = [len(d) for d in drafter.draft([item(90) for _ in range(4)], 4)]
    assert lengths[0] == 8
    assert lengths[-1] == 0
    assert 4 + sum(lengths) <= 14


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (SpeculationConfig(), ["prediction", "lookup"]),
        (SpeculationConfig(lookup=LookupConfig(enabled=False)), ["prediction"]),
        (SpeculationConfig(prediction=PredictionConfig(enabled=False)), ["lookup"]),
        (SpeculationConfig(enabled=False), []),
    ],
)
def test_the_configuration_says_who_drafts(config: SpeculationConfig, names: list[str]) -> None:
    assert [proposer.name for proposer in build_proposers(config)] == names
    drafter = build_drafter(config, PassCost(), VOCABULARY)
    assert list(drafter.faults) == names
    [draft] = drafter.draft([DraftItem([1, 2, 1, 2], 4, 9, {}, predict(range(5, 30)))], 1)
    assert draft.proposer == (names[0] if names else "")


SMALL = EngineConfig(
    block_size=4, num_blocks=64, max_model_len=128, max_batch_tokens=64, max_sequences=4, speculation=SCHEDULE
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    garbage=st.lists(st.integers(0, 63), max_size=60),
    own=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    temperature=st.sampled_from([0.0, 0.9]),
)
def test_no_prediction_changes_what_is_written(garbage: list[int], own: tuple[int, int], temperature: float) -> None:
    """Any ids at all, with a piece of the right answer among them, so that drafts are accepted and rejected."""
    model = FakeModel(copies=3.0)
    sampling = make_sequence([1]).sampling.model_copy(update={"temperature": temperature, "max_tokens": 30})
    answer = plain_decode(model, make_sequence([3, 1, 4], sampling=sampling))
    prediction = predict([*garbage, *answer[own[0] : sum(own)], *garbage])
    seq = make_sequence([3, 1, 4], sampling=sampling, prediction=prediction)
    engine = Engine(model, SMALL, frozenset({10_000}))
    engine.add(seq)
    while engine.has_work:
        engine.step()
        engine.check()
    assert seq.tokens[3:] == answer

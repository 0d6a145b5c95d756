"""Drafters that are not accepted, or not wanted in a crowd, hold back for a while and always look again."""

import pytest

from inference.config import AdaptiveConfig, AutoDisableConfig, SpeculationConfig
from inference.sequence import Proposal
from inference.speculation.auto_disable import EVIDENCE, REST, WINDOW, Resting
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftBatch, DraftItem
from tests.inference.drafting import Fixed

BATCH = DraftBatch([DraftItem((1, 2), 2, 8, {})])


def resting(min_acceptance: float | None = 0.5) -> Resting:
    return Resting(Fixed("lookup", *range(8)), min_acceptance)


def drafts(one: Resting) -> bool:
    [proposal] = one.propose(BATCH)
    return bool(proposal)


def verified(one: Resting, tokens: int, accepted_of_8: int) -> None:
    for _ in range(tokens // 8):
        one.observe(8, accepted_of_8)


def steps_until_it_drafts(one: Resting) -> int:
    return next(step for step in range(10 * REST) if drafts(one))


def test_it_is_judged_on_enough_evidence_only() -> None:
    one = resting()
    verified(one, EVIDENCE - 8, accepted_of_8=0)
    assert drafts(one)
    verified(one, 8, accepted_of_8=0)
    assert not drafts(one)


@pytest.mark.parametrize(("accepted_of_8", "rests"), [(3, True), (4, False)], ids=["under", "exactly"])
def test_the_limit_is_the_least_that_is_enough(accepted_of_8: int, rests: bool) -> None:
    one = resting(0.5)
    verified(one, 4 * WINDOW, accepted_of_8)
    assert one.rests is rests


def test_a_rest_ends_and_is_taken_again_only_on_new_evidence() -> None:
    one = resting()
    for _ in range(3):
        verified(one, WINDOW, accepted_of_8=0)
        assert steps_until_it_drafts(one) == REST
        verified(one, EVIDENCE - 8, accepted_of_8=0)
        assert drafts(one)
        one.observe(8, 0)
        assert steps_until_it_drafts(one) == REST
        verified(one, 2 * WINDOW, accepted_of_8=8)
        assert drafts(one), "good again: for as long as it stays good"


def test_only_the_latest_drafts_count() -> None:
    one = resting(0.5)
    verified(one, 100 * WINDOW, accepted_of_8=8)
    verified(one, WINDOW // 2 + 8, accepted_of_8=0)
    assert one.rests


def test_without_a_limit_it_never_rests() -> None:
    one = resting(None)
    verified(one, 4 * WINDOW, accepted_of_8=0)
    assert drafts(one)


def drafter(*names: str, **auto_disable: float) -> Drafter:
    config = SpeculationConfig(
        adaptive=AdaptiveConfig(mode="schedule"), auto_disable=AutoDisableConfig.model_validate(auto_disable)
    )
    return Drafter(config, PassCost(), 100, [Fixed(name, *range(8)) for name in names])


def draft(of: Drafter, running: int = 1) -> str:
    """Who drafted."""
    [proposal] = of.draft([DraftItem((1, 2), 2, 8, {})], running)
    return proposal.proposer


def test_a_clients_prediction_is_not_the_deployments_to_switch_off() -> None:
    both = drafter("prediction", "lookup", min_acceptance=0.5)
    for name in ("prediction", "lookup"):
        for _ in range(EVIDENCE):
            both.observe({}, Proposal((1,), name), accepted=0)
    assert both.resting == ("lookup",)
    assert draft(both) == "prediction"
    assert draft(drafter("prediction", "lookup")) == "prediction"


def test_in_a_crowd_nothing_is_drafted_and_after_it_everything() -> None:
    one = drafter("prediction", max_running=4)
    assert [draft(one, running) for running in (1, 4, 5, 50, 4)] == ["prediction"] * 2 + [""] * 2 + ["prediction"]
    assert one.resting == ()

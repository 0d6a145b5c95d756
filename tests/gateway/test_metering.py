"""Sums over choices and runs, and what is billed for each way to end."""

import pytest

from gateway.metering import Meter
from inference.protocol import Accepted, ProposerStats, SpeculationStats, Timings, TokenEvent, TokenUsage
from storage.values import Outcome


def tokens(choice: int, seq_no: int, size: int) -> TokenEvent:
    return TokenEvent(choice=choice, seq_no=seq_no, token_ids=tuple(range(size)), text="x" * size)


def last(choice: int, completion: int, accepted: int, rejected: int = 1) -> TokenEvent:
    stats = ProposerStats(
        drafts=1, drafted=accepted + rejected, accepted=accepted, accepted_by_position=(1,) * accepted
    )
    usage = TokenUsage(
        prompt_tokens=10,
        cached_tokens=4,
        completion_tokens=completion,
        timings=Timings(queue=1.0 + choice, prefill=2.0, decode=3.0),
        speculation=SpeculationStats(
            steps=completion - 1 - accepted,
            accepted_delivered=accepted,
            prediction_tokens=20,
            rejected_prediction_tokens=rejected,
            by_proposer={"prediction": stats},
        ),
        config_versions={3: completion - 1 - accepted},
    )
    return TokenEvent(choice=choice, seq_no=9, token_ids=(), text="", finish_reason="stop", usage=usage)


def test_two_choices() -> None:
    meter = Meter(runs=1, choices=2, policy="billed")
    meter.observe(0, Accepted(prompt_tokens=10, prediction_tokens=20))
    for choice in (0, 1):
        meter.observe(0, tokens(choice, 0, 6))
    assert not meter.is_final
    meter.observe(0, last(0, completion=6, accepted=2))
    meter.observe(0, last(1, completion=6, accepted=3, rejected=2))
    meter.delivered = 12
    figures = meter.figures()
    assert (figures.prompt_tokens, figures.cached_tokens, figures.prediction_tokens) == (10, 4, 20)
    assert (figures.generated_tokens, figures.visible_tokens, figures.completion_tokens) == (12, 12, 12 + 3)
    assert (figures.steps, figures.accepted_delivered, figures.choices_with_output) == (3 + 2, 5, 2)
    assert figures.generated_tokens - 2 == figures.steps + figures.accepted_delivered
    assert (figures.by_proposer["prediction"].accepted, figures.by_proposer["prediction"].drafted) == (5, 8)
    assert figures.by_proposer["prediction"].accepted_by_position == (2, 2, 1)
    assert figures.config_versions == {3: 5}
    assert (figures.timings["queue"], figures.timings["prefill"], figures.timings["decode"]) == (2.0, 2.0, 6.0)
    assert figures.final


def test_prompts_are_counted_once_each() -> None:
    meter = Meter(runs=2, choices=1, policy="free")
    for run in (0, 1):
        meter.observe(run, Accepted(prompt_tokens=10))
        meter.observe(run, last(0, completion=3, accepted=0))
    figures = meter.figures()
    assert (figures.prompt_tokens, figures.cached_tokens, figures.generated_tokens) == (20, 8, 6)


@pytest.mark.parametrize(
    ("outcome", "visible"), [("completed", 9), ("error", 9), ("disconnected", 9), ("engine_lost", 5)]
)
def test_what_is_visible_depends_on_how_it_ended(outcome: Outcome, visible: int) -> None:
    meter = Meter(runs=1, choices=1, policy="free")
    meter.observe(0, Accepted(prompt_tokens=10))
    meter.observe(0, tokens(0, 0, 9))
    meter.delivered = 5
    figures = meter.figures(outcome)
    assert (figures.generated_tokens, figures.delivered_tokens) == (9, 5)
    assert (figures.visible_tokens, figures.completion_tokens) == (visible, visible)
    assert not figures.final, "the engine never said its last word"


def test_the_engines_last_word_beats_what_was_seen() -> None:
    meter = Meter(runs=1, choices=1, policy="free")
    meter.observe(0, tokens(0, 0, 9))
    meter.observe(0, last(0, completion=11, accepted=0))
    assert meter.generated == 11

"""Through the whole engine: who sees what an earlier request said, and that no text changes with it."""

import pytest

from inference.config import AdaptiveConfig, EngineConfig, LookupConfig, SpeculationConfig, SuffixConfig
from inference.engine.engine import Engine
from inference.protocol import ProposerStats, SamplingParams
from tests.fakes import FakeModel, make_sequence, plain_decode

EOS = frozenset({0})
PROMPT = [3, 1, 4, 1, 5]


def config(scope: str) -> EngineConfig:
    suffix = SuffixConfig.model_validate({"enabled": True, "scope": scope})
    adaptive = AdaptiveConfig(mode="schedule")
    speculation = SpeculationConfig(lookup=LookupConfig(enabled=False), suffix=suffix, adaptive=adaptive)
    return EngineConfig(block_size=4, num_blocks=64, max_model_len=200, speculation=speculation, prefix_caching=False)


def say(engine: Engine, model: FakeModel, salt: str, speculate: bool = True) -> ProposerStats:
    """The same request again; what its suffix drafts came to."""
    sampling = SamplingParams(temperature=0.0, seed=1, max_tokens=24)
    seq = make_sequence(PROMPT, salt, sampling=sampling, cache_salt=salt, speculate=speculate)
    expected = plain_decode(model, make_sequence(PROMPT, salt, sampling=sampling), EOS)
    engine.add(seq)
    while engine.has_work:
        outputs = engine.step()
    assert seq.tokens[len(PROMPT) :] == expected
    [usage] = [output.event.usage for output in outputs if output.event.usage]
    return usage.speculation.by_proposer.get("suffix", ProposerStats())


def engine_with(scope: str) -> tuple[Engine, FakeModel]:
    model = FakeModel(vocab_size=64, num_blocks=64, block_size=4)
    return Engine(model, config(scope), EOS), model


def test_a_tenant_that_opted_in_is_drafted_what_it_was_told_before() -> None:
    engine, model = engine_with("tenant")
    first, again, stranger = (say(engine, model, salt) for salt in ("a", "a", "b"))
    assert again.accepted > first.accepted
    assert stranger == first


@pytest.mark.parametrize("scope", ["request", "tenant"])
def test_a_request_that_opted_out_of_drafts_teaches_nobody(scope: str) -> None:
    engine, model = engine_with(scope)
    assert say(engine, model, "a", speculate=False) == ProposerStats()
    assert say(engine, model, "a") == say(engine_with("request")[0], model, "a")


def test_by_default_a_request_learns_from_no_other() -> None:
    engine, model = engine_with("request")
    assert say(engine, model, "a") == say(engine, model, "a")

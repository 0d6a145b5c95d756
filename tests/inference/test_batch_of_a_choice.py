"""`TokenUsage.batch`: with how many sequences a choice shared the passes that decoded it."""

from inference.config import EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.protocol import SamplingParams, TokenUsage
from inference.sequence import Sequence
from tests.fakes import FakeModel, make_sequence

NO_EOS: frozenset[int] = frozenset({10_000})
CONFIG = EngineConfig(
    block_size=4,
    num_blocks=64,
    max_model_len=128,
    max_batch_tokens=64,
    max_sequences=8,
    speculation=SpeculationConfig(enabled=False),
)


def _of(request_id: str, max_tokens: int, prompt: tuple[int, ...] = (1, 2, 3)) -> Sequence:
    return make_sequence(prompt, request_id, sampling=SamplingParams(temperature=0, max_tokens=max_tokens))


def _usages(engine: Engine, *late: tuple[int, Sequence]) -> dict[str, TokenUsage]:
    """Run to the end; `late` joins before the pass of that number."""
    usages: dict[str, TokenUsage] = {}
    number = 0
    while engine.has_work:
        number += 1
        for before, seq in late:
            if before == number:
                engine.add(seq)
        usages |= {o.request_id: o.event.usage for o in engine.step() if o.event.usage}
    return usages


def test_each_step_counts_the_sequences_of_its_pass() -> None:
    engine = Engine(FakeModel(), CONFIG, NO_EOS)
    for seq in (_of("long", 10), _of("short", 4)):
        engine.add(seq)
    usages = _usages(engine, (6, _of("late", 3)))
    assert {name: usage.speculation.steps for name, usage in usages.items()} == {"long": 9, "short": 3, "late": 2}
    # Passes 2 to 4 hold two, 5 one, 6 to 8 two (the prompt that joins in pass 6 is one of them), 9 and 10 one.
    assert usages["long"].batch == (3 * 2 + 1 + 3 * 2 + 2 * 1) / 9
    assert usages["short"].batch == 2.0
    assert usages["late"].batch == 2.0


def test_what_no_pass_decoded_has_no_batch() -> None:
    engine = Engine(FakeModel(), CONFIG, NO_EOS)
    engine.add(_of("one", 1))
    assert _usages(engine)["one"].batch == 0.0


def test_a_sequence_that_waits_is_not_in_the_pass() -> None:
    """A cache for one and a half: the second is preempted for a while, and computes anew what it had."""
    config = CONFIG.model_copy(update={"num_blocks": 8, "max_model_len": 32})
    engine = Engine(FakeModel(num_blocks=8), config, NO_EOS)
    for start in (0, 20):
        engine.add(_of(str(start), 20, tuple(range(start, start + 10))))
    usages = _usages(engine)
    assert engine.load().preemptions == 1
    # Six of the nineteen steps of each were shared.
    assert [usage.batch for usage in usages.values()] == [(13 + 6 * 2) / 19] * 2

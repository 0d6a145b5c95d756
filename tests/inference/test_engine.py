"""The engine writes what its model says, token for token, whatever is drafted, cut, preempted, shared or aborted."""

from collections.abc import Callable
from typing import Any

import pytest

from inference.config import AdaptiveConfig, EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.protocol import SamplingParams, TokenEvent
from inference.sequence import NO_DRAFT, Prediction, Proposal, Sequence, Spelling
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftItem
from tests.fakes import FakeModel, make_sequence, plain_decode

NO_EOS: frozenset[int] = frozenset({10_000})
ROOMY = EngineConfig(block_size=4, num_blocks=64, max_model_len=128, max_batch_tokens=64, max_sequences=8)
UNDRAFTED = ROOMY.model_copy(update={"speculation": SpeculationConfig(enabled=False)})
SCHEDULE = SpeculationConfig(adaptive=AdaptiveConfig(mode="schedule"))


class Oracle(Drafter):
    """Drafts the text that will come, with a wrong token every `wrong` tokens; each sequence's own answer is given."""

    def __init__(self, answers: dict[tuple[int, ...], list[int]], length: int, wrong: int) -> None:
        super().__init__(SpeculationConfig(), PassCost(), 64)
        self._answers, self._length, self._wrong = answers, length, wrong

    def draft(self, items: list[DraftItem], committed_rows: int) -> list[Proposal]:
        return [self._draft(item) for item in items]

    def observe(self, memory: dict[str, Any], draft: Proposal, accepted: int) -> None:
        pass

    def _draft(self, item: DraftItem) -> Proposal:
        done = len(item.tokens) - item.prompt_len
        answer = self._answers.get(tuple(item.tokens[: item.prompt_len]), [])
        tokens = [
            (t + 1) % 64 if self._wrong and (done + i) % self._wrong == self._wrong - 1 else t
            for i, t in enumerate(answer[done : done + min(self._length, item.max_tokens)])
        ]
        return Proposal(tuple(tokens), "oracle") if tokens else NO_DRAFT


def oracle(model: FakeModel, seqs: list[Sequence], length: int, wrong: int) -> Callable[..., Drafter]:
    answers = {tuple(s.tokens): plain_decode(model, s) for s in seqs}
    return lambda config, cost, vocab_size: Oracle(answers, length, wrong)


def run(engine: Engine, seqs: list[Sequence]) -> dict[tuple[str, int], list[TokenEvent]]:
    for seq in seqs:
        engine.add(seq)
    events: dict[tuple[str, int], list[TokenEvent]] = {}
    for _ in range(2000):
        for output in engine.step():
            events.setdefault((output.request_id, output.event.choice), []).append(output.event)
        engine.check()
        if not engine.has_work:
            return events
    raise AssertionError("the engine does not come to an end")


def tokens_of(events: list[TokenEvent]) -> list[int]:
    assert [e.seq_no for e in events] == list(range(len(events)))
    return [t for e in events for t in e.token_ids]


def assert_identity(event: TokenEvent) -> None:
    assert event.usage is not None
    spec = event.usage.speculation
    assert event.usage.completion_tokens - 1 == spec.steps + spec.accepted_delivered


PROMPTS = [[1, 2, 3], [5] * 17, list(range(40)), [9, 9, 8], [5] * 17, [7] * 33, [3, 1, 4, 1, 5, 9, 2, 6], [60]]


def batch_of_eight(temperature: float) -> list[Sequence]:
    return [
        make_sequence(
            prompt, f"r{i}", sampling=SamplingParams(temperature=temperature, top_p=0.9, seed=i, max_tokens=20 + i)
        )
        for i, prompt in enumerate(PROMPTS)
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize(("length", "wrong"), [(0, 0), (1, 0), (5, 3), (8, 0), (30, 7)])
@pytest.mark.parametrize("config", [ROOMY, ROOMY.model_copy(update={"max_batch_tokens": 5})], ids=["wide", "narrow"])
def test_drafts_change_no_token(temperature: float, length: int, wrong: int, config: EngineConfig) -> None:
    model = FakeModel(copies=3.0)
    seqs = batch_of_eight(temperature)
    expected = [plain_decode(model, s) for s in seqs]
    engine = Engine(model, config, NO_EOS, drafter=oracle(model, seqs, length, wrong))
    events = run(engine, seqs)
    assert [tokens_of(events[f"r{i}", 0]) for i in range(8)] == expected
    for i in range(8):
        assert_identity(events[f"r{i}", 0][-1])
    accepted = sum(e[-1].usage.speculation.accepted_delivered for e in events.values() if e[-1].usage)
    assert (accepted > 0) == (length > 0)


def test_a_tight_cache_preempts_and_changes_no_token() -> None:
    tight = EngineConfig(block_size=4, num_blocks=17, max_model_len=68, max_batch_tokens=64, max_sequences=8)
    model = FakeModel(num_blocks=17, copies=3.0)
    seqs = batch_of_eight(0.7)
    expected = [plain_decode(model, s) for s in seqs]
    engine = Engine(model, tight, NO_EOS, drafter=oracle(model, seqs, 8, 3))
    events = run(engine, seqs)
    assert [tokens_of(events[f"r{i}", 0]) for i in range(8)] == expected
    usages = [e[-1].usage for e in events.values()]
    assert engine.load().preemptions > 0
    assert all(u and u.completion_tokens - 1 == u.speculation.steps + u.speculation.accepted_delivered for u in usages)


def test_a_prefix_hit_changes_no_token() -> None:
    model = FakeModel()
    engine = Engine(model, ROOMY, NO_EOS)
    first = run(engine, [make_sequence([7] * 33, "miss")])["miss", 0]
    second = run(engine, [make_sequence([7] * 33, "hit")])["hit", 0]
    assert tokens_of(first) == tokens_of(second)
    assert first[-1].usage is not None
    assert second[-1].usage is not None
    assert (first[-1].usage.cached_tokens, second[-1].usage.cached_tokens) == (0, 32)


def test_another_salt_gets_no_hit() -> None:
    engine = Engine(FakeModel(), ROOMY, NO_EOS)
    run(engine, [make_sequence([7] * 33, "a", cache_salt="a")])
    usage = run(engine, [make_sequence([7] * 33, "b", cache_salt="b")])["b", 0][-1].usage
    assert usage is not None
    assert usage.cached_tokens == 0


def test_choices_are_their_own_draws_and_the_prompt_is_computed_once() -> None:
    model = FakeModel()
    engine = Engine(model, UNDRAFTED, NO_EOS)
    sampling = SamplingParams(temperature=1.0, seed=3, n=3, max_tokens=10)
    leader = make_sequence([7] * 33, "n", sampling=sampling)
    others = [make_sequence([7] * 33, "n", choice=c, sampling=sampling, leader=leader) for c in (1, 2)]
    expected = [plain_decode(model, s) for s in (leader, *others)]
    events = run(engine, [leader, *others])
    outputs = [tokens_of(events["n", c]) for c in range(3)]
    assert outputs == expected
    assert len({tuple(o) for o in outputs}) == 3
    # 33 prompt rows once, one row of the last block for each other choice, nine decoded rows a choice
    assert model.rows == 33 + 2 * 1 + 3 * 9
    alone = run(Engine(model, ROOMY, NO_EOS), [make_sequence([7] * 33, "one", sampling=sampling)])
    assert tokens_of(alone["one", 0]) == outputs[0]


@pytest.mark.parametrize("cut", range(12))
@pytest.mark.parametrize("kind", ["eos", "stop", "length"])
def test_a_run_is_cut_where_the_choice_ends(kind: str, cut: int) -> None:
    """The end falls at each index of a run that the target accepts whole."""
    model = FakeModel()
    prompt = [2, 4, 6]
    whole = plain_decode(model, make_sequence(prompt, sampling=SamplingParams(temperature=0, max_tokens=24)))
    first_at = next(i for i in range(cut, 24) if whole[i] not in whole[:i])
    sampling = SamplingParams(temperature=0, max_tokens=first_at + 1 if kind == "length" else 24)
    stop = (chr(0x4E00 + whole[first_at]),) if kind == "stop" else ()
    eos = frozenset({whole[first_at]}) if kind == "eos" else NO_EOS
    answers = {tuple(prompt): whole}
    engine = Engine(model, ROOMY, eos, drafter=lambda *_: Oracle(answers, 24, 0))
    events = run(engine, [make_sequence(prompt, stop=stop, sampling=sampling)])["r", 0]
    assert tokens_of(events) == whole[: first_at + 1]
    assert events[-1].finish_reason == ("length" if kind == "length" else "stop")
    assert_identity(events[-1])
    text = "".join(e.text for e in events)
    assert text == "".join(chr(0x4E00 + t) for t in whole[: first_at + (kind == "length")])
    usage = events[-1].usage
    assert usage is not None
    assert usage.speculation.accepted_delivered == first_at, "the last token counts as the target's own"


def test_end_of_text_can_be_ignored() -> None:
    model = FakeModel()
    whole = plain_decode(model, make_sequence([2, 4]))
    sampling = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)
    events = run(Engine(model, ROOMY, frozenset(whole)), [make_sequence([2, 4], sampling=sampling)])
    assert tokens_of(events["r", 0]) == whole


@pytest.mark.parametrize("after", range(6))
def test_an_abort_returns_every_block_and_says_what_was_used(after: int) -> None:
    model = FakeModel(copies=3.0)
    config = ROOMY.model_copy(update={"max_batch_tokens": 16})
    seqs = [make_sequence([7] * 33, "gone"), make_sequence([1, 2, 3], "stays")]
    expected = plain_decode(model, seqs[1])
    engine = Engine(model, config, NO_EOS, drafter=oracle(model, seqs, 3, 2))
    for seq in seqs:
        engine.add(seq)
    stays: list[TokenEvent] = []
    emitted = 0
    for _ in range(after):
        for output in engine.step():
            if output.request_id == "stays":
                stays.append(output.event)
            else:
                emitted += len(output.event.token_ids)
    [last] = engine.abort("gone")
    engine.check()
    assert last.event.finish_reason == "abort"
    assert last.event.usage is not None
    assert last.event.usage.completion_tokens == emitted
    if emitted:
        assert_identity(last.event)
    while engine.has_work:
        stays += [o.event for o in engine.step()]
        engine.check()
    assert tokens_of(stays) == expected
    assert engine.load().free_blocks == engine.load().num_blocks


def test_a_nan_row_fails_its_own_request_only() -> None:
    class Poisoned(FakeModel):
        def forward(self, batch):  # type: ignore[no-untyped-def]
            logits_RV = super().forward(batch)
            row = 0
            for chunk in batch.chunks:
                if chunk.seq.request_id == "bad" and chunk.num_sampled and chunk.seq.num_output >= 3:
                    logits_RV[row, 5] = float("nan")
                row += chunk.num_sampled
            return logits_RV

    seqs = [make_sequence([7] * 9, "bad"), make_sequence([1, 2, 3], "good")]
    expected = plain_decode(FakeModel(), seqs[1])
    engine = Engine(Poisoned(), ROOMY, NO_EOS)
    events = run(engine, seqs)
    assert events["bad", 0][-1].finish_reason == "error"
    assert len(tokens_of(events["bad", 0])) == 3
    assert tokens_of(events["good", 0]) == expected


def test_the_drafter_changes_between_steps_and_no_text_changes() -> None:
    model = FakeModel(copies=6.0)
    seqs = batch_of_eight(0.7)
    expected = [plain_decode(model, s) for s in seqs]
    engine = Engine(model, ROOMY.model_copy(update={"speculation": SCHEDULE}), NO_EOS)
    for seq in seqs:
        engine.add(seq)
    events: dict[str, list[TokenEvent]] = {}
    version = 1
    while engine.has_work:
        version += 1
        engine.set_speculation(SCHEDULE.model_copy(update={"version": version, "enabled": version % 2 == 0}))
        for output in engine.step():
            events.setdefault(output.request_id, []).append(output.event)
        engine.check()
    assert [tokens_of(events[f"r{i}"]) for i in range(8)] == expected
    usage = events["r7"][-1].usage
    assert usage is not None
    assert len(usage.config_versions) > 3
    assert sum(usage.config_versions.values()) == usage.speculation.steps


def test_a_prediction_saves_passes_and_is_counted_by_position() -> None:
    model = FakeModel(copies=0.0)
    sampling = SamplingParams(temperature=0, max_tokens=30)
    answer = plain_decode(model, make_sequence([2, 4, 6], sampling=sampling))
    given = [*answer[:10], 63, 62, 61, *answer[13:]]
    assert given[10:13] != answer[10:13]
    prediction = Prediction(len(given), (Spelling(tuple(given), tuple(range(len(given)))),))
    engine = Engine(model, ROOMY.model_copy(update={"speculation": SCHEDULE}), NO_EOS)
    events = run(engine, [make_sequence([2, 4, 6], sampling=sampling, prediction=prediction)])["r", 0]
    assert tokens_of(events) == answer
    usage = events[-1].usage
    assert usage is not None
    spec = usage.speculation
    assert spec.accepted_prediction_tokens == spec.accepted_delivered >= 18
    assert 0 < spec.rejected_prediction_tokens <= spec.prediction_tokens == 30
    assert_identity(events[-1])


def test_positions_of_the_prediction_count_once_as_kept_or_rejected() -> None:
    model = FakeModel()
    sampling = SamplingParams(temperature=0, max_tokens=12)
    answer = plain_decode(model, make_sequence([2, 4, 6], sampling=sampling))

    class FromPrediction(Oracle):
        """Drafts five tokens, each fourth position wrong, and names the positions they come from."""

        def _draft(self, item: DraftItem) -> Proposal:
            tokens = super()._draft(item).tokens
            done = len(item.tokens) - item.prompt_len
            return Proposal(tokens, "prediction", tuple(range(done, done + len(tokens))))

    engine = Engine(model, ROOMY, NO_EOS, drafter=lambda *_: FromPrediction({(2, 4, 6): answer}, 5, 4))
    events = run(engine, [make_sequence([2, 4, 6], sampling=sampling)])["r", 0]
    usage = events[-1].usage
    assert tokens_of(events) == answer
    assert usage is not None
    # Passes at 0, 4 and 8 keep three drafted tokens and correct the fourth. Positions 3 and 7 were never right; 4 and 8
    # lay behind them, were rejected with them, and were kept when drafted again; at most 11 tokens are ever drafted.
    assert usage.speculation.rejected_prediction_tokens == 2
    stats = usage.speculation.by_proposer["prediction"]
    assert (stats.drafts, stats.drafted, stats.accepted) == (3, 5 + 5 + 3, 9)
    assert stats.accepted_by_position == (3, 3, 3)
    assert (usage.speculation.steps, usage.speculation.accepted_delivered) == (2, 9)


def test_what_was_drafted_past_the_end_was_not_in_the_answer() -> None:
    model = FakeModel()
    whole = plain_decode(model, make_sequence([2, 4, 6]))
    end = next(i for i in range(3, 16) if whole[i] not in whole[:i])

    class FromPrediction(Oracle):
        def _draft(self, item: DraftItem) -> Proposal:
            tokens = super()._draft(item).tokens
            return Proposal(tokens, "prediction", tuple(range(len(tokens))))

    engine = Engine(model, ROOMY, frozenset({whole[end]}), drafter=lambda *_: FromPrediction({(2, 4, 6): whole}, 15, 0))
    usage = run(engine, [make_sequence([2, 4, 6])])["r", 0][-1].usage
    assert usage is not None
    assert usage.completion_tokens == end + 1
    assert usage.speculation.rejected_prediction_tokens == 15 - (end + 1)


def test_the_last_token_of_a_choice_is_not_drafted() -> None:
    model = FakeModel()
    seq = make_sequence([2, 4, 6], sampling=SamplingParams(temperature=0, max_tokens=5))
    engine = Engine(model, ROOMY, NO_EOS, drafter=oracle(model, [seq], 3, 0))
    run(engine, [seq])
    assert (model.passes, model.rows) == (2, 3 + 3 + 1)


def test_a_new_drafter_finds_no_notes_of_the_old_one() -> None:
    engine = Engine(FakeModel(), ROOMY.model_copy(update={"speculation": SCHEDULE}), NO_EOS)
    seq = make_sequence([1, 2, 3, 1, 2, 3])
    engine.add(seq)
    engine.step()
    seq.memory["old"] = object()
    engine.set_speculation(SCHEDULE.model_copy(update={"version": 2}))
    assert "old" not in seq.memory


def test_a_request_may_go_without_speculation() -> None:
    model = FakeModel(copies=8.0)
    sampling = SamplingParams(temperature=0, max_tokens=30)
    seq = make_sequence([1, 2, 3, 4, 1, 2, 3, 4], sampling=sampling, speculate=False)
    usage = run(Engine(model, ROOMY.model_copy(update={"speculation": SCHEDULE}), NO_EOS), [seq])["r", 0][-1].usage
    assert usage is not None
    assert usage.speculation.by_proposer == {}
    assert usage.speculation.steps == 29


def test_decode_time_is_the_sum_of_its_parts() -> None:
    ticks = iter(range(1_000_000))
    model = FakeModel(copies=3.0)
    seqs = batch_of_eight(0.0)
    engine = Engine(model, ROOMY, NO_EOS, clock=lambda: float(next(ticks)), drafter=oracle(model, seqs, 4, 3))
    for events in run(engine, seqs).values():
        usage = events[-1].usage
        assert usage is not None
        t = usage.timings
        assert t.decode == t.draft + t.verify + t.coordination
        assert min(t.queue, t.prefill, t.draft, t.verify, t.coordination) > 0


def test_a_forced_output_is_dictated_and_ends_the_choice() -> None:
    model = FakeModel()
    seq = make_sequence([2, 4], forced=(9, 8, 7), sampling=SamplingParams(temperature=0, max_tokens=30))
    events = run(Engine(model, ROOMY, frozenset({50})), [seq])["r", 0]
    assert tokens_of(events) == [9, 8, 7, 50]
    assert events[-1].usage is not None
    assert events[-1].usage.forced

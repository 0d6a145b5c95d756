"""Requests, drafts, aborts and drafter changes in any order: every text is the model's own, and nothing leaks.

The drafter says anything at all: right tokens, wrong tokens, tokens of other requests. The cache is tight, so that
sequences preempt each other, and prompts are few and block-aligned, so that prefixes collide.
"""

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.config import EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.protocol import SamplingParams, TokenEvent
from inference.sequence import Proposal, Sequence
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftItem
from tests.fakes import FakeModel, make_sequence, plain_decode

VOCAB = 12
EOS = frozenset({0})
CONFIG = EngineConfig(block_size=4, num_blocks=14, max_model_len=56, max_batch_tokens=11, max_sequences=4)


class AnyDrafter(Drafter):
    """Guesses, half of the time well: the fake model's favourite is the successor of the last token."""

    def __init__(self, config: SpeculationConfig, cost: PassCost, vocab_size: int) -> None:
        super().__init__(config, cost, vocab_size)
        self._random = random.Random(config.version)

    def draft(self, items: list[DraftItem], committed_rows: int) -> list[Proposal]:
        return [self._guess(item) for item in items]

    def observe(self, memory: dict[str, Any], draft: Proposal, accepted: int) -> None:
        assert 0 <= accepted <= len(draft)

    def _guess(self, item: DraftItem) -> Proposal:
        tokens, last = [], item.tokens[-1]
        for _ in range(min(self._random.randrange(9), item.max_tokens)):
            last = (last + 1) % VOCAB if self._random.random() < 0.8 else self._random.randrange(VOCAB)
            tokens.append(last)
        return Proposal(tuple(tokens), "any")


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = FakeModel(VOCAB, num_blocks=14, block_size=4, copies=4.0)
        self.engine = Engine(self.model, CONFIG, EOS, drafter=AnyDrafter)
        self.open: dict[tuple[str, int], Sequence] = {}
        self.said: dict[tuple[str, int], list[TokenEvent]] = {}
        self.count = 0

    @rule(
        unit=st.sampled_from([[1], [1, 2, 3, 4], [4, 4, 4, 4], [1, 2, 3, 4, 1, 2, 3, 4]]),
        times=st.integers(1, 4),
        salt=st.sampled_from(["a", "b"]),
        temperature=st.sampled_from([0.0, 0.7, 1.3]),
        choices=st.integers(1, 3),
        max_tokens=st.integers(1, 20),
        stop=st.sampled_from([(), (chr(0x4E00 + 7),), (chr(0x4E00 + 7) + chr(0x4E00 + 8), chr(0x4E00 + 5))]),
    )
    def ask(
        self, unit: list[int], times: int, salt: str, temperature: float, choices: int, max_tokens: int, stop: Any
    ) -> None:
        self.count += 1
        sampling = SamplingParams(temperature=temperature, seed=self.count, n=choices, max_tokens=max_tokens)
        leader = None
        for choice in range(choices):
            request = f"r{self.count}"
            seq = make_sequence(unit * times, request, choice, stop, sampling, cache_salt=salt, leader=leader)
            leader = leader or seq
            self.open[request, choice] = seq
            self.said[request, choice] = []
            self.engine.add(seq)

    @precondition(lambda self: self.engine.has_work)
    @rule(times=st.integers(1, 8))
    def step(self, times: int) -> None:
        for _ in range(times):
            if self.engine.has_work:
                for output in self.engine.step():
                    self.hear(output.request_id, output.event)
                self.engine.check()

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 100))
    def abort(self, which: int) -> None:
        request_id = list(self.open)[which % len(self.open)][0]
        for output in self.engine.abort(request_id):
            self.hear(output.request_id, output.event)
        assert all(key[0] != request_id for key in self.open)

    @rule(version=st.integers(1, 50))
    def change_drafter(self, version: int) -> None:
        self.engine.set_speculation(SpeculationConfig(version=version))

    @invariant()
    def holds_together(self) -> None:
        self.engine.check()

    def hear(self, request_id: str, event: TokenEvent) -> None:
        key = request_id, event.choice
        self.said[key].append(event)
        if event.finish_reason:
            self.judge(self.open.pop(key), self.said.pop(key))

    def judge(self, seq: Sequence, events: list[TokenEvent]) -> None:
        tokens = [t for e in events for t in e.token_ids]
        last = events[-1]
        expected = plain_decode(self.model, make_sequence(seq.tokens[: seq.prompt_len], **self.asked(seq)), EOS)
        assert tokens == (expected[: len(tokens)] if last.finish_reason == "abort" else expected)
        assert last.usage is not None
        spec = last.usage.speculation
        assert last.usage.completion_tokens == len(tokens)
        assert max(0, len(tokens) - 1) == spec.steps + spec.accepted_delivered
        assert last.usage.cached_tokens < last.usage.prompt_tokens

    def asked(self, seq: Sequence) -> dict[str, Any]:
        return {"choice": seq.choice, "sampling": seq.sampling, "stop": seq.text._stop}  # type: ignore[attr-defined]

    def teardown(self) -> None:
        for _ in range(3000):
            if not self.engine.has_work:
                break
            self.step(1)
            self.engine.check()
        assert not self.open
        assert self.engine.load().free_blocks == CONFIG.num_blocks


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)

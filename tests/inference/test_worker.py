"""The engine's thread: commands between steps, events to whom they belong, and a clean end when a step breaks."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inference.config import EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.engine.worker import Worker
from inference.protocol import EngineError, Failure, SamplingParams, TokenEvent
from inference.sequence import Batch
from inference.speculation.build import build_drafter
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost
from tests.fakes import FakeModel, make_sequence, plain_decode

CONFIG = EngineConfig(block_size=4, num_blocks=64, max_model_len=128)
Events = queue.SimpleQueue[TokenEvent | Failure]


@contextmanager
def running(model: FakeModel) -> Iterator[Worker]:
    worker = Worker(Engine(model, CONFIG, frozenset({10_000})))
    worker.start()
    try:
        yield worker
    finally:
        worker.close()


def until_last(events: Events) -> list[TokenEvent]:
    heard: list[TokenEvent] = []
    while not heard or not heard[-1].finish_reason:
        event = events.get(timeout=10)
        assert isinstance(event, TokenEvent)
        heard.append(event)
    return heard


def test_each_request_hears_its_own_tokens() -> None:
    model = FakeModel()
    seqs = [make_sequence([i, 2, 3], f"r{i}") for i in range(5)]
    expected = [plain_decode(model, s) for s in seqs]
    inboxes: list[Events] = [queue.SimpleQueue() for _ in seqs]
    with running(model) as worker:
        for seq, inbox in zip(seqs, inboxes, strict=True):
            worker.submit([seq], inbox.put)
        heard = [[t for e in until_last(inbox) for t in e.token_ids] for inbox in inboxes]
    assert heard == expected


def test_an_abort_ends_a_request_that_would_go_on() -> None:
    inbox: Events = queue.SimpleQueue()
    seq = make_sequence([1], sampling=SamplingParams(temperature=0, max_tokens=120))
    with running(FakeModel()) as worker:
        worker.submit([seq], inbox.put)
        inbox.get(timeout=10)
        worker.abort("r")
        assert until_last(inbox)[-1].finish_reason in ("abort", "length")
        worker.abort("r")
        worker.abort("never seen")


def test_the_load_is_that_of_the_last_step() -> None:
    inbox: Events = queue.SimpleQueue()
    with running(FakeModel()) as worker:
        assert (worker.load().running, worker.load().config_version) == (0, 1)
        worker.set_speculation(SpeculationConfig(version=7))
        worker.submit([make_sequence([1])], inbox.put)
        until_last(inbox)
        assert worker.load().config_version == 7


def test_a_configuration_is_at_work_when_its_future_says_so() -> None:
    with running(FakeModel()) as worker:
        worker.set_speculation(SpeculationConfig(version=7)).result(timeout=10)
        assert worker.load().config_version == 7


def test_an_older_configuration_is_refused_and_the_same_one_changes_nothing() -> None:
    with running(FakeModel()) as worker:
        for _ in range(2):
            worker.set_speculation(SpeculationConfig(version=7)).result(timeout=10)
        with pytest.raises(EngineError, match="Version 6 is older than version 7") as refused:
            worker.set_speculation(SpeculationConfig(version=6, enabled=False)).result(timeout=10)
        assert (refused.value.failure.status, worker.load().config_version) == (409, 7)
        worker.set_speculation(SpeculationConfig(version=1, origin="another")).result(timeout=10)
        assert (worker.load().config_version, worker.load().config_origin) == (1, "another")


def test_drafters_that_cannot_be_built_leave_the_old_ones_at_work() -> None:
    def build(config: SpeculationConfig, cost: PassCost, vocab_size: int) -> Drafter:
        if config.version == 2:
            raise MemoryError("no room beside the model")
        return build_drafter(config, cost, vocab_size)

    inbox: Events = queue.SimpleQueue()
    worker = Worker(Engine(FakeModel(), CONFIG, frozenset({10_000}), drafter=build))
    worker.start()
    try:
        with pytest.raises(MemoryError):
            worker.set_speculation(SpeculationConfig(version=2)).result(timeout=10)
        worker.submit([make_sequence([1])], inbox.put)
        usage = until_last(inbox)[-1].usage
    finally:
        worker.close()
    assert usage is not None
    assert list(usage.config_versions) == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_step_that_raises_fails_every_open_request_and_says_why() -> None:
    class Breaks(FakeModel):
        def forward(self, batch: Batch) -> object:  # type: ignore[override]
            if self.passes == 3:
                raise RuntimeError("device lost")
            return super().forward(batch)

    inboxes: list[Events] = [queue.SimpleQueue() for _ in range(3)]
    with running(Breaks()) as worker:
        for i, inbox in enumerate(inboxes[:2]):
            worker.submit([make_sequence([1], f"r{i}")], inbox.put)
        for inbox in inboxes[:2]:
            last = inbox.get(timeout=10)
            while isinstance(last, TokenEvent):
                last = inbox.get(timeout=10)
            assert (last.status, last.code) == (500, "engine_failed")
        assert worker.failure is not None
        assert "RuntimeError" in worker.failure
        assert "device lost" not in worker.failure, "an exception may quote what a request said"
        worker.submit([make_sequence([1], "late")], inboxes[2].put)
        refused = inboxes[2].get(timeout=10)
        assert isinstance(refused, Failure)
        assert refused.status == 503

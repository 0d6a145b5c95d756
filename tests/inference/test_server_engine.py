"""HTTP to engine and back with the real engine over a fake model: whose tokens, and how soon an abort is felt."""

import asyncio
import time
from contextlib import aclosing

import pytest
import torch

from inference.engine.worker import Worker
from inference.protocol import EngineError, TokenEvent
from inference.sequence import Batch
from tests.fakes import FakeModel, make_sequence, plain_decode
from tests.inference.serving import (
    VOCAB,
    GatedModel,
    ask,
    client_of,
    everything,
    greedy,
    real_worker,
    tokenizer,
    until,
)

pytestmark = pytest.mark.anyio
MANY = 10_000
"""Passes: the gate is open."""


def fake() -> FakeModel:
    return FakeModel(vocab_size=VOCAB, num_blocks=128, block_size=4)


def tokens_of(events: list[TokenEvent], choice: int = 0) -> list[int]:
    return [token for event in events if event.choice == choice for token in event.token_ids]


def at_rest(worker: Worker) -> bool:
    load = worker.load()
    return (load.running, load.waiting, load.free_blocks) == (0, 0, load.num_blocks)


async def test_the_engines_tokens_and_their_text_arrive_whole() -> None:
    prompt = tokenizer().encode("hello world")
    expected = plain_decode(fake(), make_sequence(prompt, sampling=greedy(40)))
    with real_worker(fake()) as worker:
        async with client_of(worker) as client:
            accepted, *events = await everything(client, ask(prompt="hello world", sampling=greedy(40)))
    assert accepted.type == "accepted"
    heard = [event for event in events if isinstance(event, TokenEvent)]
    assert tokens_of(heard) == expected
    assert "".join(event.text for event in heard) == tokenizer().decode(expected)
    assert [event.seq_no for event in heard] == list(range(len(heard)))
    usage = heard[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (len(prompt), 40)
    assert [event.finish_reason for event in heard] == [None] * (len(heard) - 1) + ["length"]


async def test_choices_come_interleaved_and_each_is_whole() -> None:
    sampling = greedy(12, n=3).model_copy(update={"temperature": 1.0, "seed": 5})
    prompt = tokenizer().encode("hello")
    with real_worker(fake()) as worker:
        async with client_of(worker) as client:
            events = [e for e in await everything(client, ask(sampling=sampling)) if isinstance(e, TokenEvent)]
    for choice in range(3):
        sequence = make_sequence(prompt, choice=choice, sampling=sampling)
        assert tokens_of(events, choice) == plain_decode(fake(), sequence)
        assert [e.seq_no for e in events if e.choice == choice] == list(range(sum(e.choice == choice for e in events)))
    last = {choice: max(i for i, e in enumerate(events) if e.choice == choice) for choice in range(3)}
    first = {choice: min(i for i, e in enumerate(events) if e.choice == choice) for choice in range(3)}
    assert max(first.values()) < min(last.values())


async def test_requests_at_one_time_do_not_mix() -> None:
    prompts = [f"{i} hello" for i in range(8)]
    with real_worker(fake()) as worker:
        async with client_of(worker) as client:
            calls = [everything(client, ask(f"r{p}", p, sampling=greedy(15))) for p in prompts]
            heard = await asyncio.gather(*calls)
    for prompt, events in zip(prompts, heard, strict=True):
        expected = plain_decode(fake(), make_sequence(tokenizer().encode(prompt), sampling=greedy(15)))
        assert tokens_of([e for e in events if isinstance(e, TokenEvent)]) == expected


@pytest.mark.parametrize("passes", [0, 2, 9], ids=["first pass", "prefill", "decode"])
async def test_a_closed_connection_ends_the_request_within_a_step(passes: int) -> None:
    """The prompt takes seven passes of 16 rows."""
    model = GatedModel()
    with real_worker(model) as worker:
        async with client_of(worker) as client:
            async with aclosing(client.generate(ask(prompt="a" * 100, sampling=greedy(150)))) as events:
                await anext(events)
                model.let(passes)
                await until(lambda: len(model.batches) == passes + 1)
                if passes == 9:
                    assert (await anext(events)).type == "tokens"
            closed = time.monotonic()
            await asyncio.sleep(0.2)  # the close must have arrived before the pass in progress may end
            model.let(1)
            await until(lambda: at_rest(worker), seconds=1)
            assert time.monotonic() - closed < 1
            assert len(model.batches) == passes + 1
        model.let(MANY)


async def test_a_closed_connection_ends_a_request_that_waits_its_turn() -> None:
    model = GatedModel()
    with real_worker(model, max_sequences=1) as worker:
        async with client_of(worker) as client:
            first = asyncio.create_task(everything(client, ask("first", sampling=greedy(20))))
            await until(lambda: len(model.batches) == 1)
            async with aclosing(client.generate(ask("second", sampling=greedy(20)))) as second:
                await anext(second)
                model.let(2)
                await until(lambda: worker.load().waiting == 1)
            await asyncio.sleep(0.2)
            model.let(1)
            await until(lambda: worker.load().waiting == 0, seconds=1)
            assert worker.load().running == 1
            model.let(MANY)
            await first
            assert {chunk.seq.request_id for batch in model.batches for chunk in batch.chunks} == {"first"}


async def test_an_aborted_request_ends_with_what_it_used() -> None:
    model = GatedModel()
    with real_worker(model) as worker:
        async with client_of(worker) as client:
            events = client.generate(ask(sampling=greedy(150, n=2)))
            await anext(events)
            model.let(4)
            heard = [await anext(events) for _ in range(4)]
            await client.abort("r")
            model.let(MANY)
            heard += [event async for event in events]
            await until(lambda: at_rest(worker))
    last = [e for e in heard if isinstance(e, TokenEvent) and e.finish_reason]
    assert sorted((e.choice, e.finish_reason) for e in last) == [(0, "abort"), (1, "abort")]
    for event in last:
        emitted = tokens_of([e for e in heard if isinstance(e, TokenEvent)], event.choice)
        assert event.usage is not None
        assert event.usage.completion_tokens == len(emitted)
        decoded = event.usage.speculation.steps + event.usage.speculation.accepted_delivered
        assert decoded == max(0, len(emitted) - 1)


async def test_a_stop_string_ends_a_request_and_never_leaves() -> None:
    prompt = tokenizer().encode("hello")
    text = tokenizer().decode(plain_decode(fake(), make_sequence(prompt, sampling=greedy(60))))
    stop = next(text[i : i + 2] for i in range(4, 50) if "\ufffd" not in text[i : i + 2])
    sampling = greedy(60).model_copy(update={"stop": (stop,)})
    with real_worker(fake()) as worker:
        async with client_of(worker) as client:
            events = [e for e in await everything(client, ask(sampling=sampling)) if isinstance(e, TokenEvent)]
    assert "".join(event.text for event in events) == text[: text.index(stop)]
    assert events[-1].finish_reason == "stop"


async def test_a_step_that_breaks_ends_every_stream_and_is_named() -> None:
    class BrokenModel(GatedModel):
        def forward(self, batch: Batch) -> torch.Tensor:
            super().forward(batch)
            raise RuntimeError("a kernel failed")

    model = BrokenModel()
    with real_worker(model) as worker:
        async with client_of(worker) as client:
            calls = [asyncio.create_task(everything(client, ask(name))) for name in ("a", "b")]
            await until(lambda: len(model.batches) == 1)
            await asyncio.sleep(0.1)
            model.let(MANY)
            for call in calls:
                with pytest.raises(EngineError, match="RuntimeError") as error:
                    await call
                assert error.value.failure.code == "engine_failed"
            with pytest.raises(EngineError, match="RuntimeError"):
                await client.ready()

"""The official client against the whole server on the real model: an edit and every other route."""

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Any

import openai
import pytest

from tests.integration.served import Served, specgate, wait_for

pytestmark = [pytest.mark.model, pytest.mark.xdist_group("served"), pytest.mark.timeout(180)]

FILE = "".join(f"def area_{i}(width, height):\n    return width * height + {i}\n\n\n" for i in range(4))
ASK: dict[str, Any] = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": f"Repeat this file.\n\n```python\n{FILE}```"}],
    "temperature": 0,
    "max_completion_tokens": 64,
}
PREDICTION: dict[str, Any] = {"prediction": {"type": "content", "content": FILE}}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def sync(server: Served) -> openai.OpenAI:
    server.wait_ready()
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.credentials["inference_key"], max_retries=0)


def read(stream: Any) -> tuple[str, Any]:
    chunks = list(stream)
    return "".join(c.choices[0].delta.content or "" for c in chunks[:-1]), chunks[-1].usage


def test_a_streamed_edit_is_the_same_with_and_without_its_prediction(server: Served) -> None:
    with sync(server) as client:
        text, usage = read(client.chat.completions.create(**ASK, **PREDICTION, **USAGE))
        plain, without = read(client.chat.completions.create(**ASK, **USAGE, extra_body={"speculation": "off"}))
    assert text == plain
    assert usage.completion_tokens == without.completion_tokens == 64
    assert usage.completion_tokens_details.accepted_prediction_tokens > 0
    assert without.completion_tokens_details.accepted_prediction_tokens == 0
    assert usage.prompt_tokens == without.prompt_tokens
    assert without.prompt_tokens_details.cached_tokens > 0, "the second finds the first one's prompt"


@pytest.mark.long
def test_seeded_sampling_repeats_itself(server: Served) -> None:
    ask = ASK | {"temperature": 0.9, "seed": 11, "n": 2, "max_completion_tokens": 16}
    with sync(server) as client:
        answers = [client.chat.completions.create(**ask, **extra) for extra in ({}, PREDICTION)]
        other = client.chat.completions.create(**ask | {"seed": 12})
    first, second = ([c.message.content for c in answer.choices] for answer in answers)
    assert first == second
    assert first[0] != first[1]
    assert first != [c.message.content for c in other.choices]
    assert answers[0].system_fingerprint


def test_stop_and_completions_and_models(server: Served) -> None:
    with sync(server) as client:
        told = client.chat.completions.create(**ASK, stop="area_1")
        assert told.choices[0].finish_reason == "stop"
        assert told.choices[0].message.content is not None
        assert "area_1" not in told.choices[0].message.content
        legacy = client.completions.create(model="smollm2-135m", prompt=["def f(x):", [504, 3575]], temperature=0)
        assert [c.index for c in legacy.choices] == [0, 1]
        assert legacy.usage is not None
        assert legacy.usage.completion_tokens <= 32
        assert [m.id for m in client.models.list()] == ["smollm2-135m"]


def test_a_prompt_over_the_context_is_refused_with_both_numbers(server: Served) -> None:
    with sync(server) as client, pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**ASK | {"messages": [{"role": "user", "content": "word " * 9000}]}, stream=True)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")
    assert "8192" in refused.value.message


def settled_as(server: Served, outcome: str) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(server.home / "specgate.db")) as connection:
        connection.row_factory = sqlite3.Row
        statement = "SELECT * FROM ledger_entries WHERE kind = 'settle' AND outcome = ?"
        return connection.execute(statement, [outcome]).fetchall()


def test_clients_that_leave_free_the_engine_and_the_ledger_proves_itself(server: Served) -> None:
    server.wait_ready()

    async def leave() -> float:
        key = server.credentials["inference_key"]
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            for _ in range(3):
                stream = await client.chat.completions.create(**ASK | {"max_completion_tokens": 4000}, stream=True)
                await anext(aiter(stream))
                await stream.close()
            began = time.monotonic()
            whole = await client.chat.completions.create(**ASK | {"max_completion_tokens": 8})
            assert whole.usage is not None
            return time.monotonic() - began

    assert asyncio.run(leave()) < 10, "four thousand tokens a client would take minutes"
    wait_for(lambda: len(settled_as(server, "disconnected")) >= 3, 10)
    rows = settled_as(server, "disconnected")
    assert all(row["final"] and row["visible_tokens"] == row["generated_tokens"] > 0 for row in rows)
    assert all(row["generated_tokens"] - 1 == row["steps"] + row["accepted_delivered"] for row in rows)
    done = specgate(server.home, "ledger", "verify")
    assert done.returncode == 0, done.stdout + done.stderr

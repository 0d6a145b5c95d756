"""The official client, sync and async, on every route, over a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import openai
import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
T = TypeVar("T")
ASK: dict[str, Any] = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "Say hello."}],
    "prediction": {"type": "content", "content": "Hello, world!"},
}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
SCRIPT = Script(step=3, rejected=1)


@asynccontextmanager
async def asynchronous(tmp_path: Path) -> AsyncIterator[tuple[Gateway, openai.AsyncOpenAI]]:
    async with (
        running(tmp_path, FakeEngine(SCRIPT)) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0) as client,
    ):
        yield gateway, client


async def in_thread(gateway: Gateway, use: Callable[[openai.OpenAI], T], key: str | None = None) -> T:
    def work() -> T:
        with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key or gateway.key, max_retries=0) as client:
            return use(client)

    return await anyio.to_thread.run_sync(work)


def same_usage(usage: Any) -> None:
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 4, 11)
    assert usage.prompt_tokens_details.cached_tokens == 3
    details = usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (2, 1)
    assert (details.reasoning_tokens, details.audio_tokens) == (0, 0)


def same_stream(chunks: list[Any]) -> None:
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "Hello, world!"
    assert [c.choices[0].finish_reason for c in chunks[:-1] if c.choices[0].finish_reason] == ["stop"]
    assert all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].choices == []
    same_usage(chunks[-1].usage)
    assert len({(c.id, c.created, c.model, c.system_fingerprint) for c in chunks}) == 1


async def test_chat_async(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (_, client):
        whole = await client.chat.completions.create(**ASK)
        assert whole.choices[0].message.content == "Hello, world!"
        assert whole.system_fingerprint == "fake-fp32"
        assert whole.id == f"chatcmpl-{whole._request_id}"
        same_usage(whole.usage)
        stream = await client.chat.completions.create(**ASK, **USAGE)
        same_stream([chunk async for chunk in stream])


async def test_chat_sync(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        whole = await in_thread(gateway, lambda c: c.chat.completions.create(**ASK))
        assert whole.choices[0].message.content == "Hello, world!"
        same_usage(whole.usage)
        same_stream(await in_thread(gateway, lambda c: list(c.chat.completions.create(**ASK, **USAGE))))


async def test_the_stream_helper(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (_, client):
        ask = {name: value for name, value in ASK.items() if name != "prediction"}
        async with client.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.content == "Hello, world!"
        assert final.usage is not None
        assert final.usage.completion_tokens == 4


async def test_an_answer_may_be_sent_back(tmp_path: Path) -> None:
    """A client appends the message it got, members and all."""
    async with asynchronous(tmp_path) as (gateway, client):
        first = await client.chat.completions.create(**ASK)
        turns: list[Any] = [*ASK["messages"], first.choices[0].message, {"role": "user", "content": "Again."}]
        await client.chat.completions.create(model="smollm2-135m", messages=turns)
        await client.chat.completions.create(
            model="smollm2-135m", messages=[*turns[:1], first.choices[0].message.model_dump()]
        )
        messages = gateway.engine.requests[1].messages
        assert messages is not None
        assert [m.content for m in messages] == ["Say hello.", "Hello, world!", "Again."]


async def test_completions_async(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (_, client):
        whole = await client.completions.create(model="smollm2-135m", prompt=["a", "b"])
        assert [c.text for c in whole.choices] == ["Hello, world!"] * 2
        stream = await client.completions.create(model="smollm2-135m", prompt="a", **USAGE)
        chunks = [chunk async for chunk in stream]
        assert "".join(c.choices[0].text for c in chunks[:-1]) == "Hello, world!"
        same_usage(chunks[-1].usage)


async def test_completions_sync(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(SCRIPT)) as gateway:
        whole = await in_thread(gateway, lambda c: c.completions.create(model="smollm2-135m", prompt="a"))
        assert whole.choices[0].text == "Hello, world!"
        same_usage(whole.usage)


async def test_models(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (gateway, client):
        assert [m.id async for m in client.models.list()] == ["smollm2-135m"]
        assert (await client.models.retrieve("smollm2-135m")).owned_by == "specgate"
        assert [m.id for m in await in_thread(gateway, lambda c: c.models.list())] == ["smollm2-135m"]


async def test_refusals_are_the_clients_own_errors(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (gateway, client):
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(**ASK | {"model": "gpt-9"})
        assert (unknown.value.code, unknown.value.param, unknown.value.type) == (
            "model_not_found",
            "model",
            "invalid_request_error",
        )
        assert unknown.value.request_id
        with pytest.raises(openai.BadRequestError) as bad:
            await client.chat.completions.create(**ASK | {"prediction": {"type": "content"}})
        assert (bad.value.code, bad.value.param) == ("missing_required_parameter", "prediction.content")
        with pytest.raises(openai.AuthenticationError) as stranger:
            await in_thread(gateway, lambda c: c.chat.completions.create(**ASK), key="sk-nonsense")
        assert stranger.value.code == "invalid_api_key"


async def test_an_error_in_mid_stream_is_raised(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (gateway, client):
        gateway.engine.script = Script(fail_at=2)
        stream = await client.chat.completions.create(**ASK, stream=True)
        with pytest.raises(openai.APIError, match="engine stopped"):
            async for _ in stream:
                pass
        gateway.engine.script = Script(fail_at=2)

        def read(client: openai.OpenAI) -> list[Any]:
            return list(client.chat.completions.create(**ASK, stream=True))

        with pytest.raises(openai.APIError, match="engine stopped"):
            await in_thread(gateway, read)


async def test_closing_a_stream_early_stops_the_engine(tmp_path: Path) -> None:
    async with asynchronous(tmp_path) as (gateway, client):
        gateway.engine.script = Script(words=tuple("abcdefgh"), hold_at=3)
        stream = await client.chat.completions.create(**ASK, stream=True)
        assert (await anext(aiter(stream))).choices[0].delta.role == "assistant"
        await stream.close()
        row = await gateway.settled()
        assert (row.outcome, row.completion_tokens) == ("disconnected", 3)
        assert gateway.engine.aborted == [row.request_id]

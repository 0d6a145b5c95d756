"""A silent stream is kept alive, from before the engine accepts to the last gap; official clients skip comments."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, chat_body, comments, frames, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "slow",
    [Script(before_accept=0.6), Script(before_first=0.6), Script(gap=0.2)],
    ids=["in the queue", "in prefill", "between tokens"],
)
async def test_comments_fill_the_silence(tmp_path: Path, slow: Script) -> None:
    async with running(tmp_path, FakeEngine(slow), keepalive_seconds=0.05, header_seconds=0.1) as gateway:
        response = await gateway.chat(stream=True)
    assert 3 <= len(comments(response.text)) <= 16
    assert set(comments(response.text)) == {": keep-alive"}
    assert frames(response.text)[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("slow", "header_seconds"),
    [(Script(before_accept=0.1, before_first=30), 25), (Script(before_accept=30), 0.1)],
    ids=["when the engine accepts", "after a while though it does not"],
)
async def test_headers_leave(tmp_path: Path, slow: Script, header_seconds: float) -> None:
    settings = {"header_seconds": header_seconds, "keepalive_seconds": 0.05}
    async with (
        running(tmp_path, FakeEngine(slow), **settings) as gateway,
        asyncio.timeout(5),
        gateway.http.stream("POST", CHAT, json=chat_body(stream=True)) as response,
    ):
        assert response.status_code == 200
        assert (await anext(response.aiter_bytes())).startswith(b": keep-alive")


async def test_a_refusal_after_the_headers_is_an_error_event(tmp_path: Path) -> None:
    class LateRefusal(FakeEngine):
        async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
            await asyncio.sleep(0.3)
            raise EngineError(400, "context_length_exceeded", "Too long by 12 tokens; shorten it.", "messages")
            yield Accepted(prompt_tokens=0)

    async with running(tmp_path, LateRefusal(), header_seconds=0.1) as gateway:
        (event,) = frames((await gateway.chat(stream=True)).text)
    assert (event["error"]["code"], event["error"]["param"]) == ("context_length_exceeded", "messages")


async def test_the_official_client_skips_comments(tmp_path: Path) -> None:
    engine = FakeEngine(Script(before_first=0.3, gap=0.1))
    async with (
        running(tmp_path, engine, keepalive_seconds=0.02) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key) as client,
    ):
        stream = await client.chat.completions.create(
            model="smollm2-135m", messages=[{"role": "user", "content": "x"}], stream=True
        )
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(text) == "Hello, world!"

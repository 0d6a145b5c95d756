"""Legacy completions: every form of prompt, indexes over prompts and choices, its own shapes and default."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import MODEL, Gateway, frames, running

pytestmark = pytest.mark.anyio


async def complete(gateway: Gateway, **members: Any) -> Any:
    response = await gateway.http.post("/v1/completions", json={"model": MODEL} | members)
    assert response.status_code == 200, response.text
    return frames(response.text) if members.get("stream") else response.json()


async def test_whole(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(step=3))) as gateway:
        body = await complete(gateway, prompt="Say", prediction="Hello, world!", echo=False, best_of=1, suffix=None)
        assert body["object"] == "text_completion"
        assert body["id"].startswith("cmpl-")
        assert body["system_fingerprint"] == "fake-fp32"
        assert body["choices"] == [{"index": 0, "text": "Hello, world!", "logprobs": None, "finish_reason": "stop"}]
        assert body["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] == 2
        (request,) = gateway.engine.requests
        assert (request.prompt, request.prompt_token_ids, request.messages) == ("Say", None, None)
        assert (request.sampling.max_tokens, request.prediction) == (16, "Hello, world!")


async def test_stream(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        *chunks, usage, done = await complete(
            gateway, prompt="Say", stream=True, stream_options={"include_usage": True, "include_obfuscation": False}
        )
        assert done == "[DONE]"
        texts = [(c["choices"][0]["text"], c["choices"][0]["finish_reason"]) for c in chunks]
        assert texts == [("Hello", None), (",", None), (" world", None), ("!", None), ("", "stop")]
        assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 11)


@pytest.mark.parametrize("streams", [False, True])
async def test_several_prompts(tmp_path: Path, streams: bool) -> None:
    """Choice c of prompt p is p·n + c; each prompt is counted once; one row in the ledger."""
    async with running(tmp_path, FakeEngine()) as gateway:
        body = await complete(gateway, prompt=["a", "b", "c"], n=2, stream=streams)
        if streams:
            ended = [c["choices"][0]["index"] for c in body[:-1] if c["choices"][0]["finish_reason"]]
            assert sorted(ended) == [0, 1, 2, 3, 4, 5]
        else:
            assert [c["index"] for c in body["choices"]] == [0, 1, 2, 3, 4, 5]
            assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (21, 24)
        row = await gateway.settled()
        assert (row.choices, row.prompt_tokens, row.cached_tokens, row.generated_tokens) == (6, 21, 9, 24)
        assert row.generated_tokens - 6 == row.steps + row.accepted_delivered
        assert [r.prompt for r in gateway.engine.requests] == ["a", "b", "c"]
        assert len({r.request_id for r in gateway.engine.requests}) == 3


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [([1, 2, 3], [(1, 2, 3)]), ([[1], [2, 3]], [(1,), (2, 3)]), (["x"], [None]), ("", [None])],
)
async def test_prompts_as_tokens(tmp_path: Path, prompt: Any, asked: list[tuple[int, ...] | None]) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await complete(gateway, prompt=prompt)
        assert [r.prompt_token_ids for r in gateway.engine.requests] == asked

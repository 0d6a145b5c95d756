"""Chat completions over a real socket: shapes, order of chunks, counts, and what the ledger keeps."""

from pathlib import Path

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import frames, running

pytestmark = pytest.mark.anyio


async def test_whole_answer(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(step=3, rejected=2))) as gateway:
        response = await gateway.chat(prediction={"type": "content", "content": "Hello, world!"})
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        assert body["id"] == f"chatcmpl-{response.headers['x-request-id']}"
        assert body["object"] == "chat.completion"
        (choice,) = body["choices"]
        assert choice["message"]["content"] == "Hello, world!"
        assert choice["finish_reason"] == "stop"
        assert body["usage"] == {
            "prompt_tokens": 7,
            "completion_tokens": 4,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 2,
                "rejected_prediction_tokens": 2,
            },
        }
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.delivered_tokens, row.completion_tokens) == (
            "completed",
            4,
            4,
            4,
        )
        assert row.generated_tokens - row.choices_with_output == row.steps + row.accepted_delivered == 3
        assert (row.route, row.model, row.final) == ("/v1/chat/completions", "smollm2-135m", True)
        assert gateway.engine.requests[0].prediction == "Hello, world!"
        assert gateway.engine.aborted == []


async def test_stream_with_usage(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        response = await gateway.chat(stream=True, stream_options={"include_usage": True})
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        *chunks, usage, done = frames(response.text)
        assert done == "[DONE]"
        assert [c["choices"][0]["delta"] for c in chunks] == [
            {"role": "assistant", "content": "", "refusal": None},
            {"content": "Hello"},
            {"content": ","},
            {"content": " world"},
            {"content": "!"},
            {},
        ]
        assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * 5 + ["stop"]
        assert all(c["usage"] is None for c in chunks)
        assert {(c["id"], c["created"], c["model"], c["object"]) for c in [*chunks, usage]} == {
            (f"chatcmpl-{response.headers['x-request-id']}", usage["created"], "smollm2-135m", "chat.completion.chunk")
        }
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] == 4


async def test_stream_without_usage_has_none(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        *chunks, done = frames((await gateway.chat(stream=True)).text)
        assert done == "[DONE]"
        assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


@pytest.mark.parametrize("streams", [False, True])
async def test_choices_count_the_prompt_once(tmp_path: Path, streams: bool) -> None:
    async with running(tmp_path, FakeEngine(Script(step=2))) as gateway:
        response = await gateway.chat(n=3, stream=streams)
        if streams:
            chunks = frames(response.text)[:-1]
            roles = [c["choices"][0]["index"] for c in chunks if "role" in c["choices"][0]["delta"]]
            reasons = [c["choices"][0]["index"] for c in chunks if c["choices"][0]["finish_reason"]]
            assert roles == reasons == [0, 1, 2]
        else:
            body = response.json()
            assert [c["index"] for c in body["choices"]] == [0, 1, 2]
            assert {c["message"]["content"] for c in body["choices"]} == {"Hello, world!"}
            assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (7, 12)
        row = await gateway.settled()
        assert (row.prompt_tokens, row.cached_tokens, row.choices, row.choices_with_output) == (7, 3, 3, 3)
        assert row.generated_tokens == row.delivered_tokens == 12
        assert row.generated_tokens - 3 == row.steps + row.accepted_delivered == 9


async def test_text_held_back_is_delivered_with_what_follows(tmp_path: Path) -> None:
    """Half a character has no text yet: no empty chunk leaves, and its token counts once the rest is written."""
    async with running(tmp_path, FakeEngine(Script(words=("", "", "é", "")))) as gateway:
        chunks = frames((await gateway.chat(stream=True)).text)[:-1]
        assert [c["choices"][0]["delta"].get("content") for c in chunks] == ["", "é", None]
        assert (await gateway.settled()).delivered_tokens == 4


@pytest.mark.parametrize(("policy", "completion"), [("free", 4), ("billed", 4 + 5), ("capped", 4 + 2)])
async def test_rejected_tokens_follow_the_tenants_policy(tmp_path: Path, policy: str, completion: int) -> None:
    from storage.tenants import Tenants

    async with running(tmp_path, FakeEngine(Script(step=3, rejected=5))) as gateway:
        async with gateway.parts.db.unit() as session:
            tenant = await Tenants(session).get("default")
            assert tenant is not None
            await Tenants(session).update(tenant, "default", policy)  # type: ignore[arg-type]
        usage = (await gateway.chat(prediction="Hello, world!")).json()["usage"]
        assert usage["completion_tokens"] == completion
        assert usage["total_tokens"] == 7 + completion
        assert usage["completion_tokens_details"]["rejected_prediction_tokens"] == 5
        row = await gateway.settled()
        assert (row.visible_tokens, row.completion_tokens) == (4, completion)

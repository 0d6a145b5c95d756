"""The engine dies, fails or goes silent in the middle: the client is told, and the row is settled."""

from pathlib import Path

import pytest

from inference.protocol import EngineError
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import frames, running

pytestmark = pytest.mark.anyio
LOST = EngineError(500, "engine_lost", "The engine stopped while it answered.")
FAULT = EngineError(500, "engine_error", "This request's numbers went wrong.")


async def test_killed_in_mid_stream(tmp_path: Path) -> None:
    """An error event and no [DONE]; what had reached the socket is billed."""
    async with running(tmp_path, FakeEngine(Script(fail_at=3, error=LOST))) as gateway:
        response = await gateway.chat(stream=True, stream_options={"include_usage": True})
        assert response.status_code == 200
        *chunks, last = frames(response.text)
        assert last == {
            "error": {
                "message": "The engine stopped while it answered.",
                "type": "server_error",
                "param": None,
                "code": "engine_lost",
            }
        }
        assert [c["choices"][0]["delta"]["content"] for c in chunks] == ["", "Hello", ",", " world"]
        row = await gateway.settled()
        assert (row.outcome, row.delivered_tokens, row.completion_tokens) == ("engine_lost", 3, 3)
        assert not row.final
        assert gateway.engine.aborted == [], "a dead engine is asked nothing"


async def test_killed_under_a_whole_answer(tmp_path: Path) -> None:
    """Nothing was delivered, so nothing is billed; the client may try again."""
    async with running(tmp_path, FakeEngine(Script(fail_at=3, error=LOST))) as gateway:
        response = await gateway.chat()
        assert (response.status_code, response.json()["error"]["code"]) == (500, "engine_lost")
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.delivered_tokens) == ("engine_lost", 3, 0)
        assert (row.visible_tokens, row.completion_tokens) == (0, 0)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_fault_of_one_request(tmp_path: Path, streams: bool) -> None:
    async with running(tmp_path, FakeEngine(Script(fail_at=2, error=FAULT))) as gateway:
        response = await gateway.chat(stream=streams)
        assert response.status_code == (200 if streams else 500)
        error = frames(response.text)[-1]["error"] if streams else response.json()["error"]
        assert (error["code"], error["message"]) == ("engine_error", "This request's numbers went wrong.")
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 2, 2)


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_a_choice_that_ends_badly_is_no_success(tmp_path: Path, reason: str) -> None:
    async with running(tmp_path, FakeEngine(Script(finish=reason))) as gateway:  # type: ignore[arg-type]
        last = frames((await gateway.chat(stream=True)).text)[-1]
        assert last["error"]["code"] == "engine_error"
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 4, 4)
        assert row.final


async def test_a_stream_without_a_last_word_is_no_success(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(fail_at=2, ends_early=True))) as gateway:
        last = frames((await gateway.chat(stream=True)).text)[-1]
        assert last["error"]["code"] == "engine_error"
        assert (await gateway.settled()).outcome == "error"


async def test_one_lost_prompt_ends_the_others(tmp_path: Path) -> None:
    """Two prompts are two engine requests of one row: when one fails the other is aborted and drained."""

    class OneFails(FakeEngine):
        def generate(self, request):  # type: ignore[no-untyped-def]
            fails = request.request_id.endswith("-1")
            self.script = Script(fail_at=2, error=FAULT) if fails else Script(hold_at=2)
            return super().generate(request)

    async with running(tmp_path, OneFails()) as gateway:
        body = {"model": "smollm2-135m", "prompt": ["a", "b"]}
        response = await gateway.http.post("/v1/completions", json=body)
        assert response.status_code == 500
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 4, 4)
        assert gateway.engine.aborted == [row.request_id + "-0"]

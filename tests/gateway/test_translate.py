"""Requests in the engine's words."""

import json
from typing import Any

import pytest

from gateway.openai.parse import parse
from gateway.openai.schema import ChatRequest, CompletionRequest
from gateway.openai.sse import frame
from gateway.openai.translate import Terms, chat_requests, completion_requests
from inference.protocol import GenerationRequest, SamplingParams
from tests.gateway.running import chat_body


def chat(**members: Any) -> GenerationRequest:
    (request,) = chat_requests(parse(json.dumps(chat_body(**members)).encode(), ChatRequest), "r1", Terms("salt", 3))
    return request


def test_chat() -> None:
    request = chat(
        messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        prediction="text",
        speculation="off",
        n=2,
        stop="END",
        temperature=0.5,
        top_p=0.9,
        seed=7,
        max_completion_tokens=9,
    )
    assert (request.request_id, request.cache_salt, request.prediction) == ("r1", "salt", "text")
    assert (request.speculation.mode, request.speculation.config_version) == ("off", 3)
    assert request.messages is not None
    assert [(m.role, m.content) for m in request.messages] == [("system", "Be brief."), ("user", "Hi")]
    assert request.speculation.mode == "off"
    assert request.sampling == SamplingParams(
        max_tokens=9, temperature=0.5, top_p=0.9, seed=7, n=2, stop=("END",), ignore_eos=False
    )


def test_defaults_are_openais() -> None:
    request = chat()
    assert request.sampling == SamplingParams(max_tokens=None, temperature=1.0, top_p=1.0, seed=None, n=1, stop=())
    assert (request.prediction, request.speculation.mode, request.forced_output) == (None, "auto", None)
    legacy = parse(b'{"model": "m", "prompt": "x"}', CompletionRequest)
    assert completion_requests(legacy, "r", Terms(""))[0].sampling.max_tokens == 16


def test_top_p_zero_keeps_the_likeliest_token() -> None:
    assert 0 < chat(top_p=0).sampling.top_p < 1e-6


@pytest.mark.parametrize("name", ["cache_salt", "forced_output", "priority", "request_id"])
def test_what_is_the_gateways_cannot_be_sent(name: str) -> None:
    from gateway.errors import InvalidRequest

    with pytest.raises(InvalidRequest, match="Unknown parameter"):
        chat(**{name: "x"})


def test_a_frame_is_one_line_for_every_reader() -> None:
    text = "a\nb\r\x0b\x0c\x1c\x85\u2028\u2029é"
    told = frame({"text": text}).decode()
    assert told.endswith("\n\n")
    assert len(told[:-2].splitlines()) == 1
    assert json.loads(told.removeprefix("data: ")) == {"text": text}

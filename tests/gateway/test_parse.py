"""What a request's fields reduce to."""

import json
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.parse import parse
from gateway.openai.schema import ChatRequest, CompletionRequest
from tests.gateway.running import chat_body

A, B = {"type": "text", "text": "a\n"}, {"type": "text", "text": "b", "prompt_cache_breakpoint": {"type": "x"}}


def chat(**members: Any) -> ChatRequest:
    return parse(json.dumps(chat_body(**members)).encode(), ChatRequest)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, None),
        ("", ""),
        ("plain", "plain"),
        ({"type": "content", "content": "text"}, "text"),
        ({"type": "content", "content": ""}, ""),
        ({"type": "content", "content": []}, ""),
        ({"type": "content", "content": [A, B]}, "a\nb"),
    ],
)
def test_prediction(given: Any, text: str | None) -> None:
    assert chat(prediction=given).prediction == text
    body = json.dumps({"model": "m", "prompt": "x", "prediction": given}).encode()
    assert parse(body, CompletionRequest).prediction == text


def test_messages() -> None:
    messages = [
        {"role": "system", "content": [A, B]},
        {"role": "developer", "content": "be kind", "name": "dev"},
        {"role": "assistant"},
        {"role": "assistant", "content": None, "tool_calls": None, "refusal": None, "audio": None, "annotations": []},
    ]
    assert [m.content for m in chat(messages=messages).messages] == ["a\nb", "be kind", "", ""]


@pytest.mark.parametrize(("given", "stops"), [(None, ()), ("x", ("x",)), (["x", "y"], ("x", "y")), ([], ())])
def test_stop(given: Any, stops: tuple[str, ...]) -> None:
    assert chat(stop=given).stop == stops


def test_what_asks_for_nothing_is_accepted() -> None:
    """Clients and frameworks send defaults and nulls; they must not be refused."""
    chat(
        frequency_penalty=0.0,
        presence_penalty=0,
        logit_bias={},
        logprobs=False,
        top_logprobs=0,
        response_format={"type": "text"},
        tools=[],
        tool_choice="none",
        parallel_tool_calls=True,
        functions=None,
        function_call="auto",
        modalities=["text"],
        audio=None,
        reasoning_effort=None,
        verbosity="medium",
        web_search_options=None,
        store=False,
        service_tier="auto",
        user="somebody",
        safety_identifier="s",
        metadata={"workload": "edit"},
        prompt_cache_key="k",
        stream=False,
        stream_options=None,
        temperature=1,
        top_p=0,
        seed=-(2**63),
        max_tokens=5,
        max_completion_tokens=5,
        prediction=None,
        speculation="off",
    )


def test_every_optional_member_may_be_null() -> None:
    optional = [name for name, field in ChatRequest.model_fields.items() if not field.is_required()]
    assert chat(**dict.fromkeys(optional)).stop == ()


@pytest.mark.parametrize("name", ["presence_penalty", "logprobs", "n", "temperature"])
def test_true_is_no_number_and_zero_no_truth(name: str) -> None:
    with pytest.raises(InvalidRequest):
        chat(**{name: 0 if name == "logprobs" else True})


def test_what_was_sent_is_quoted_only_where_it_is_short() -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat(speculation="secret " * 100)
    assert "secret" not in refused.value.message

"""Limits of values are told in OpenAI's words, never in those of the library that checks them."""

import json
from typing import Any

import pytest

from gateway.deployments.changes import NewDeployment
from gateway.errors import InvalidRequest
from gateway.openai.parse import parse
from gateway.openai.schema import ChatRequest, Wire

CHAT = {"model": "x", "messages": [{"role": "user", "content": "x"}]}
DEPLOYMENT = {"name": "a", "model": "b"}


def refused(model: type[Wire], raw: bytes) -> str:
    with pytest.raises(InvalidRequest) as told:
        parse(raw, model)
    return told.value.message


@pytest.mark.parametrize(
    ("member", "value", "told"),
    [
        (
            "messages",
            CHAT["messages"] * 5000,
            "array too long. Expected an array with maximum length 4096, but got an array with length 5000 instead.",
        ),
        (
            "stop",
            ["x"] * 9,
            "array too long. Expected an array with maximum length 4, but got an array with length 9 instead.",
        ),
        ("n", 0, "integer below minimum value. Expected a value >= 1, but got 0 instead."),
        ("n", 129, "integer above maximum value. Expected a value <= 128, but got 129 instead."),
        ("n", 10**60, "integer above maximum value. Expected a value <= 128, but got another instead."),
        ("temperature", 2.5, "decimal above maximum value. Expected a value <= 2, but got 2.5 instead."),
        ("top_p", -1, "decimal below minimum value. Expected a value >= 0, but got -1 instead."),
        ("temperature", float("inf"), "the number is not finite."),
    ],
)
def test_a_request(member: str, value: Any, told: str) -> None:
    assert refused(ChatRequest, json.dumps(CHAT | {member: value}).encode()) == f"Invalid '{member}': {told}"


@pytest.mark.parametrize(
    ("member", "value", "told"),
    [
        (
            "name",
            "a" * 300,
            "string too long. Expected a string with maximum length 256, but got a string with length 300 instead.",
        ),
        (
            "reason",
            "",
            "string too short. Expected a string with minimum length 1, but got a string with length 0 instead.",
        ),
        ("cache_gib", 0, "decimal below minimum value. Expected a value > 0, but got 0 instead."),
        (
            "revision",
            "main",
            "string does not match pattern. Expected a string that matches the pattern '^[0-9a-f]+$'.",
        ),
    ],
)
def test_a_deployment(member: str, value: Any, told: str) -> None:
    assert refused(NewDeployment, json.dumps(DEPLOYMENT | {member: value}).encode()) == f"Invalid '{member}': {told}"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "it ends too early at line 1 column 0"),
        (b'{"a":', "it ends too early at line 1 column 5"),
        (b'{"a": nul}', "a value was expected at line 1 column 10"),
        (
            b'{"model": "\\ud800"}',
            "a \\u escape is half of a surrogate pair, which is no character at line 1 column 18",
        ),
        (b"[" * 5000, "it is nested too deeply at line 1 column 202"),
    ],
)
def test_what_is_no_json(raw: bytes, told: str) -> None:
    assert refused(ChatRequest, raw) == f"The body is not valid JSON: {told}."


LIBRARY = (
    "Input should",
    "should have",
    "after validation",
    "hex escape",
    "EOF",
    "expected ident",
    "Value error",
    "String ",
)


@pytest.mark.parametrize(
    "value", [None, True, -1, 0, 10**30, 1.5, float("nan"), "", "\0", "x" * 5000, [], {}, [[]] * 5000]
)
@pytest.mark.parametrize(("model", "whole"), [(ChatRequest, CHAT), (NewDeployment, DEPLOYMENT)])
def test_no_member_is_told_in_the_librarys_words(model: type[Wire], whole: dict[str, Any], value: Any) -> None:
    told = {member: message(model, whole | {member: value}) for member in model.model_fields}
    assert {member: said for member, said in told.items() if any(words in said for words in LIBRARY)} == {}


def message(model: type[Wire], body: dict[str, Any]) -> str:
    """Empty where it is taken."""
    try:
        parse(json.dumps(body).encode(), model)
    except InvalidRequest as told:
        return told.message
    return ""

"""A request's bytes become a value of `schema`, or an `InvalidRequest` that names the field as OpenAI does.

An unknown parameter is reported before a wrong one. What the client sent is quoted only where it is short.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gateway.errors import InvalidRequest
from gateway.openai.words import invalid, invalid_json

M = TypeVar("M", bound=BaseModel)
Problem = Mapping[str, Any]

_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "tuple_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
}
_JSON_NAMES = {
    "NoneType": "null",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a decimal",
    "str": "a string",
    "list": "an array",
    "tuple": "an array",
    "dict": "an object",
}


def parse(raw: bytes, model: type[M]) -> M:
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    if any(_is_whole(problem) for problem in problems):
        return parse(_with_integers(raw), model)
    raise _refusal(problems)


def _is_whole(problem: Problem) -> bool:
    """JSON knows one kind of number: 3.0 is the integer 3."""
    given = problem["input"]
    return problem["type"] == "int_type" and isinstance(given, float) and given.is_integer()


def _with_integers(raw: bytes) -> bytes:
    def number(text: str) -> float:
        value = float(text)
        return int(value) if value.is_integer() else value

    return json.dumps(json.loads(raw, parse_float=number)).encode()


def _refusal(problems: Sequence[Any]) -> InvalidRequest:
    first = min(problems, key=lambda p: _RANK.get(p["type"], 2))
    return _in_openai_words(first, _path((*first["loc"], *first.get("ctx", {}).get("at", ()))))


_RANK = {"extra_forbidden": 0, "unknown_parameter": 0, "missing": 1}


def _in_openai_words(problem: Problem, param: str | None) -> InvalidRequest:
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "json_invalid":
            return InvalidRequest(invalid_json(str(context["error"])), None, "invalid_json")
        case "missing":
            return InvalidRequest(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
        case "extra_forbidden":
            return InvalidRequest(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
        case "too_short" if problem["input"] == []:
            return InvalidRequest(f"Invalid '{param}': empty array. Send at least one item.", param, "empty_array")
        case "literal_error":
            message = f"Invalid value: {quoted(problem['input'])}. Supported values are: {context['expected']}."
            return InvalidRequest(message, param, "invalid_value")
        case _ if kind in _EXPECTED:
            return InvalidRequest(wrong_type(param, _EXPECTED[kind], problem["input"]), param, "invalid_type")
        case _ if "at" in context:
            return InvalidRequest(problem["msg"].replace("{param}", str(param)), param, kind)
        case _:
            return InvalidRequest(invalid(kind, param, problem["input"], context), param, "invalid_value")


def wrong_type(param: str | None, expected: str, got: object) -> str:
    where = f"'{param}'" if param else "the body"
    return f"Invalid type for {where}: expected {expected}, but got {json_name(got)} instead."


def json_name(value: object) -> str:
    return _JSON_NAMES.get(type(value).__name__, "something else")


def quoted(value: object) -> str:
    """What the client sent, if it is a short string."""
    return f"'{value}'" if isinstance(value, str) and len(value) <= 64 else json_name(value)


def _path(loc: Sequence[str | int]) -> str | None:
    """("messages", 0, "content") → messages[0].content"""
    path = ""
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path[:200].replace("\0", "") or None

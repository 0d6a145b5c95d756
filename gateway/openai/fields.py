"""Fields with a rule of their own: text in parts, predictions, prompts, stops, labels, and what is only accepted
while it asks for nothing. Each reduces what the wire allows to one plain value, or refuses with `refusal`.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.openai.parse import json_name, quoted

MAX_STOPS = 4
MAX_STOP_CHARACTERS = 1024
MAX_PROMPTS = 128
WORKLOAD = "workload"

Prompt = str | tuple[int, ...]
Schema = dict[str, Any]
"""JSON Schema of what the wire allows; what a field reduces it to is another matter."""


def refusal(code: str, message: str, *at: str | int) -> PydanticCustomError:
    """`code` as in OpenAI's envelope; `at` leads from the field to the member at fault, whose full path stands
    in for `{param}` in the message."""
    return PydanticCustomError(code, message, {"at": at})


def wrong(expected: str, got: object, *at: str | int) -> PydanticCustomError:
    return refusal("invalid_type", f"Invalid type for '{{param}}': expected {expected}, but got {json_name(got)}.", *at)


def join_parts(value: object, *at: str | int) -> str:
    """A string, or an array of text parts joined without separator; unknown members of a part are ignored."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong("a string or an array of text parts", value, *at)
    return "".join(_part(part, *at, i) for i, part in enumerate(value))


def _part(part: object, *at: str | int) -> str:
    if not isinstance(part, dict):
        raise wrong("an object", part, *at)
    for member in ("type", "text"):
        if member not in part and not (member == "text" and part.get("type") != "text"):
            raise refusal("missing_required_parameter", "Missing required parameter: '{param}'.", *at, member)
    if part["type"] != "text":
        message = f"Invalid value: {quoted(part['type'])}. Only parts of type 'text' are supported here."
        raise refusal("invalid_value", message, *at, "type")
    if not isinstance(part["text"], str):
        raise wrong("a string", part["text"], *at, "text")
    return part["text"]


def _content(value: object) -> str:
    return join_parts(value)


def _prediction(value: object) -> str | None:
    """null, a plain string, or {"type": "content", "content": text or parts}."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise wrong("an object or a string", value)
    for member in value:
        if member not in ("type", "content"):
            raise refusal("unknown_parameter", "Unknown parameter: '{param}'.", str(member))
    for member in ("type", "content"):
        if member not in value:
            raise refusal("missing_required_parameter", "Missing required parameter: '{param}'.", member)
    if value["type"] != "content":
        message = f"Invalid value: {quoted(value['type'])}. Supported values are: 'content'."
        raise refusal("invalid_value", message, "type")
    return join_parts(value["content"], "content")


def _prompts(value: object) -> tuple[Prompt, ...]:
    """A string, strings, tokens or arrays of tokens: always several, each text or tokens."""
    several: list[object] = value if isinstance(value, list) and not _is_tokens(value) else [value]
    if not several:
        raise refusal("empty_array", "Invalid '{param}': empty array. Send at least one prompt.")
    if len(several) > MAX_PROMPTS:
        raise refusal("invalid_value", f"Invalid '{{param}}': {len(several)} prompts, over the limit of {MAX_PROMPTS}.")
    return tuple(_prompt(one, *((i,) if several is value else ())) for i, one in enumerate(several))


def _is_tokens(value: list[object]) -> bool:
    return bool(value) and all(_is_int(t) for t in value)


def _is_int(value: object) -> bool:
    """As JSON has it, where 3.0 is an integer too."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _prompt(value: object, *at: int) -> Prompt:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong("a string or an array of tokens", value, *at)
    for i, token in enumerate(value):
        if not _is_int(token):
            raise wrong("an integer", token, *at, i)
        if not 0 <= token < 2**31:
            raise refusal("invalid_value", "Invalid value for '{param}': a token is 0 to 2147483647.", *at, i)
    return tuple(map(int, value))


def _stops(value: object) -> tuple[str, ...]:
    """null, a string or up to four."""
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list):
        raise wrong("a string or an array of strings", value)
    if len(stops) > MAX_STOPS:
        told = f"Expected an array with maximum length {MAX_STOPS}, but got an array with length {len(stops)} instead."
        raise refusal("invalid_value", f"Invalid '{{param}}': array too long. {told}")
    for i, stop in enumerate(stops):
        if not isinstance(stop, str):
            raise wrong("a string", stop, i)
        if not 1 <= len(stop) <= MAX_STOP_CHARACTERS:
            message = f"Invalid '{{param}}': a stop string has 1 to {MAX_STOP_CHARACTERS} characters."
            raise refusal("invalid_value", message, *(() if isinstance(value, str) else (i,)))
    return tuple(stops)


def _label(value: str) -> str:
    """Text that is stored or compared: no database keeps a NUL."""
    if "\0" in value:
        raise refusal("invalid_value", "Invalid value for '{param}': it holds a NUL character; remove it.")
    return value


def _metadata(value: dict[str, str]) -> dict[str, str]:
    if len(value) > 16:
        raise refusal("invalid_value", f"Invalid '{{param}}': {len(value)} pairs, over the limit of 16.")
    for key, text in value.items():
        if not 1 <= len(key) <= 64 or len(text) > 512:
            raise refusal("invalid_value", "Invalid '{param}': keys have 1 to 64 characters, values at most 512.")
        if "\0" in key + text:
            raise refusal("invalid_value", "Invalid value for '{param}': it holds a NUL character; remove it.")
    return value


def _only(*neutral: object) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value is None or any(value == n and isinstance(value, bool) == isinstance(n, bool) for n in neutral):
            return None
        told = " or ".join(repr(n).lower() if isinstance(n, bool) else repr(n) for n in neutral) or "null"
        message = f"Unsupported parameter: '{{param}}' is not supported here. Leave it out, or send {told}."
        raise refusal("unsupported_parameter", message)

    return check


def _told(*neutral: Any) -> WithJsonSchema:
    return WithJsonSchema({"enum": [None, *neutral]})


NO_NUL = r"^[^\x00]*$"
STRING: Schema = {"type": "string"}
PART: Schema = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": STRING},
    "required": ["type", "text"],
}
TEXT: Schema = {"anyOf": [STRING, {"type": "array", "items": PART}]}
TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}}
PREDICTION: Schema = {
    "type": "object",
    "properties": {"type": {"const": "content"}, "content": TEXT},
    "required": ["type", "content"],
    "additionalProperties": False,
}
PROMPTS: Schema = {"type": "array", "minItems": 1, "maxItems": MAX_PROMPTS, "items": {"anyOf": [STRING, TOKENS]}}
STOP: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS}
PAIRS: Schema = {
    "type": "object",
    "maxProperties": 16,
    "propertyNames": {"minLength": 1, "maxLength": 64, "pattern": NO_NUL},
    "additionalProperties": {"type": "string", "maxLength": 512, "pattern": NO_NUL},
}

Content = Annotated[str, BeforeValidator(_content), WithJsonSchema(TEXT)]
Prediction = Annotated[
    str | None,
    BeforeValidator(_prediction),
    WithJsonSchema({"anyOf": [{"type": "null"}, STRING, PREDICTION]}),
]
Prompts = Annotated[
    tuple[Prompt, ...],
    BeforeValidator(_prompts),
    WithJsonSchema({"anyOf": [STRING, {**TOKENS, "minItems": 1}, PROMPTS]}),
]
Stops = Annotated[
    tuple[str, ...],
    BeforeValidator(_stops),
    WithJsonSchema({"anyOf": [{"type": "null"}, STOP, {"type": "array", "maxItems": MAX_STOPS, "items": STOP}]}),
]
Label = Annotated[str, AfterValidator(_label), Field(json_schema_extra={"pattern": NO_NUL})]
Metadata = Annotated[dict[str, str], AfterValidator(_metadata), WithJsonSchema(PAIRS)]

# What would change the output and is not built: accepted while it asks for nothing.
Null = Annotated[JsonValue, AfterValidator(_only()), _told()]
Zero = Annotated[JsonValue, AfterValidator(_only(0)), _told(0)]
No = Annotated[JsonValue, AfterValidator(_only(False)), _told(False)]
EmptyList = Annotated[JsonValue, AfterValidator(_only([])), _told([])]
EmptyMap = Annotated[JsonValue, AfterValidator(_only({})), _told({})]
NoTool = Annotated[JsonValue, AfterValidator(_only("none", "auto")), _told("none", "auto")]
TextOnly = Annotated[JsonValue, AfterValidator(_only(["text"])), _told(["text"])]
TextFormat = Annotated[JsonValue, AfterValidator(_only({"type": "text"})), _told({"type": "text"})]
NoReasoning = Annotated[JsonValue, AfterValidator(_only("none")), _told("none")]
Medium = Annotated[JsonValue, AfterValidator(_only("medium")), _told("medium")]
AnyTier = Annotated[JsonValue, AfterValidator(_only("auto", "default")), _told("auto", "default")]

"""What a request may say, in OpenAI's words (types strict, unknown members refused).

Three kinds of member: honoured; hints, accepted and ignored (they change no output); and what would change the
output but is not built, accepted only while it asks for nothing. Ours are `speculation`: "off" opts one request out,
and `return_timings`: the answer says where its time went.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from gateway.openai.fields import (
    AnyTier,
    Content,
    EmptyList,
    EmptyMap,
    Label,
    Medium,
    Metadata,
    No,
    NoReasoning,
    NoTool,
    Null,
    Prediction,
    Prompts,
    Stops,
    TextFormat,
    TextOnly,
    Zero,
    refusal,
)

Hint = JsonValue
"""Accepted, ignored."""
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
MAX_CHOICES = 128


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StreamOptions(Wire):
    include_usage: bool | None = None
    include_obfuscation: Hint = None


class Message(Wire):
    """One message; its content already one text."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: Hint = None
    refusal: Hint = None
    annotations: Hint = None
    audio: Null = None
    tool_calls: EmptyList = None
    function_call: Null = None

    @model_validator(mode="before")
    @classmethod
    def _shape(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        if value.get("role") in ("tool", "function"):
            message = "Unsupported value: '{param}' does not support 'tool' here, as tools are not supported."
            raise refusal("unsupported_parameter", message, "role")
        if value.get("role") == "assistant" and value.get("content") is None:
            return {**value, "content": ""}
        return value


class Common(Wire):
    """What chat and completions share."""

    model: Label
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stop: Stops = ()
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    max_tokens: Count | None = None
    prediction: Prediction = None
    speculation: Literal["auto", "off"] | None = None
    return_timings: bool | None = None
    user: Label | None = None
    metadata: Metadata | None = None

    presence_penalty: Zero = None
    frequency_penalty: Zero = None
    logit_bias: EmptyMap = None

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> "Common":
        if self.stream_options is not None and not self.stream:
            message = "The '{param}' parameter is only allowed when 'stream' is true."
            raise refusal("invalid_value", message, "stream_options")
        return self

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(Common):
    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=4096)]
    max_completion_tokens: Count | None = None

    store: No = None
    safety_identifier: Label | None = None
    prompt_cache_key: Hint = None
    prompt_cache_retention: Hint = None
    prompt_cache_options: Hint = None
    parallel_tool_calls: Hint = None
    service_tier: AnyTier = None

    logprobs: No = None
    top_logprobs: Zero = None
    response_format: TextFormat = None
    tools: EmptyList = None
    tool_choice: NoTool = None
    functions: EmptyList = None
    function_call: NoTool = None
    modalities: TextOnly = None
    audio: Null = None
    reasoning_effort: NoReasoning = None
    verbosity: Medium = None
    web_search_options: Null = None
    moderation: Null = None

    @model_validator(mode="after")
    def _one_limit(self) -> "ChatRequest":
        both = (self.max_tokens, self.max_completion_tokens)
        if None not in both and both[0] != both[1]:
            message = "'max_tokens' and 'max_completion_tokens' differ; send one (max_completion_tokens)."
            raise refusal("invalid_value", message, "max_tokens")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class CompletionRequest(Common):
    prompt: Prompts
    best_of: JsonValue = None
    echo: No = None
    suffix: Null = None
    logprobs: Null = None

    @model_validator(mode="after")
    def _sizes(self) -> "CompletionRequest":
        if self.best_of not in (None, self.choices) or isinstance(self.best_of, bool):
            message = "Unsupported parameter: '{param}' is not supported here. Leave it out, or send the value of n."
            raise refusal("unsupported_parameter", message, "best_of")
        if self.choices * len(self.prompt) > MAX_CHOICES:
            message = f"n times the number of prompts is over {MAX_CHOICES}; send fewer."
            raise refusal("invalid_value", message, "n")
        return self

    @property
    def limit(self) -> int:
        return 16 if self.max_tokens is None else self.max_tokens

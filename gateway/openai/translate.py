"""Pure translation: a request → what the engine is asked; tokens, reasons and counts → OpenAI's objects.

`ChatAnswer` and `CompletionAnswer` wear the same face, so that whoever streams never asks which one it holds.
A completion's prompts are requests of their own; choice c of prompt p has the index p·n + c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.openai.figures import speculation_object, timings_object
from gateway.openai.schema import ChatRequest, Common, CompletionRequest
from inference.protocol import ChatMessage, GenerationRequest, SamplingParams, SpeculationRequest
from storage.values import Figures, OpenEntry, SpeculationMode

Object = dict[str, Any]
SMALLEST_TOP_P = 1e-9
"""`top_p` 0 keeps the likeliest token only."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the gateway adds to what was asked."""

    cache_salt: str
    config_version: int | None = None
    """The drafter configuration at the request's admission."""
    is_control: bool = False
    """It runs without speculation, whatever it asked for."""


def chat_requests(request: ChatRequest, request_id: str, terms: Terms) -> tuple[GenerationRequest, ...]:
    messages = tuple(ChatMessage(role=_role(m.role), content=m.content) for m in request.messages)
    return (_request(request, request_id, terms, request.limit, messages=messages),)


def completion_requests(request: CompletionRequest, request_id: str, terms: Terms) -> tuple[GenerationRequest, ...]:
    asked = [{"prompt": p} if isinstance(p, str) else {"prompt_token_ids": p} for p in request.prompt]
    ids = [request_id] if len(asked) == 1 else [f"{request_id}-{i}" for i in range(len(asked))]
    return tuple(_request(request, i, terms, request.limit, **a) for i, a in zip(ids, asked, strict=True))


def _request(request: Common, request_id: str, terms: Terms, limit: int | None, **prompt: Any) -> GenerationRequest:
    return GenerationRequest(
        request_id=request_id,
        sampling=_sampling(request, limit),
        prediction=request.prediction,
        cache_salt=terms.cache_salt,
        speculation=SpeculationRequest(mode=_mode(request, terms), config_version=terms.config_version),
        **prompt,
    )


def _mode(request: Common, terms: Terms) -> SpeculationMode:
    return "off" if terms.is_control else request.speculation or "auto"


def _sampling(request: Common, limit: int | None) -> SamplingParams:
    return SamplingParams(
        max_tokens=limit,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else max(request.top_p, SMALLEST_TOP_P),
        seed=request.seed,
        n=request.choices,
        stop=request.stop,
    )


def _role(role: str) -> str:
    return "system" if role == "developer" else role


def usage_object(figures: Figures) -> Object:
    return {
        "prompt_tokens": figures.prompt_tokens,
        "completion_tokens": figures.completion_tokens,
        "total_tokens": figures.prompt_tokens + figures.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": figures.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": figures.accepted_prediction_tokens,
            "rejected_prediction_tokens": figures.rejected_prediction_tokens,
        },
    }


@dataclass(frozen=True, slots=True)
class Heading:
    """What every object of one answer repeats."""

    request_id: str
    created: int
    model: str
    fingerprint: str | None
    includes_usage: bool = False
    """Every chunk then has a `usage`, null on all but the last."""
    entry: OpenEntry | None = None
    """Where it was asked for: the last object then says where the time went and what speculation did."""

    @property
    def has_last_chunk(self) -> bool:
        """After the choices have ended."""
        return self.includes_usage or self.entry is not None

    def measured(self, told: Object, figures: Figures) -> Object:
        if self.entry is None:
            return told
        more = {"timings": timings_object(figures), "speculation": speculation_object(self.entry, figures)}
        return told | more

    def over(self, prefix: str, kind: str, choices: list[Object], usage: Object | None, is_chunk: bool) -> Object:
        body: Object = {
            "id": f"{prefix}-{self.request_id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }
        return body if is_chunk and not self.includes_usage else body | {"usage": usage}


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of an answer that is told in one piece."""

    text: str
    finish_reason: str


class Answer(Protocol):
    """How an endpoint spells what the engine says."""

    @property
    def heading(self) -> Heading: ...

    def opening(self, index: int) -> list[Object]:
        """What precedes a choice's first text."""
        ...

    def chunk(self, index: int, text: str, finish_reason: str | None = None) -> Object: ...

    def usage_chunk(self, figures: Figures) -> Object: ...

    def whole(self, choices: Sequence[Choice], figures: Figures) -> Object: ...


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    heading: Heading

    def opening(self, index: int) -> list[Object]:
        return [self._chunk(index, {"role": "assistant", "content": "", "refusal": None}, None)]

    def chunk(self, index: int, text: str, finish_reason: str | None = None) -> Object:
        return self._chunk(index, {"content": text} if text else {}, finish_reason)

    def usage_chunk(self, figures: Figures) -> Object:
        told = self.heading.over("chatcmpl", "chat.completion.chunk", [], usage_object(figures), True)
        return self.heading.measured(told, figures)

    def whole(self, choices: Sequence[Choice], figures: Figures) -> Object:
        told: list[Object] = [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": choice.finish_reason,
            }
            for index, choice in enumerate(choices)
        ]
        whole = self.heading.over("chatcmpl", "chat.completion", told, usage_object(figures), False)
        return self.heading.measured(whole, figures)

    def _chunk(self, index: int, delta: Object, finish_reason: str | None) -> Object:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self.heading.over("chatcmpl", "chat.completion.chunk", [choice], None, True)


@dataclass(frozen=True, slots=True)
class CompletionAnswer:
    heading: Heading

    def opening(self, index: int) -> list[Object]:
        return []

    def chunk(self, index: int, text: str, finish_reason: str | None = None) -> Object:
        return self.heading.over("cmpl", "text_completion", [_text_choice(index, text, finish_reason)], None, True)

    def usage_chunk(self, figures: Figures) -> Object:
        told = self.heading.over("cmpl", "text_completion", [], usage_object(figures), True)
        return self.heading.measured(told, figures)

    def whole(self, choices: Sequence[Choice], figures: Figures) -> Object:
        told = [_text_choice(index, choice.text, choice.finish_reason) for index, choice in enumerate(choices)]
        whole = self.heading.over("cmpl", "text_completion", told, usage_object(figures), False)
        return self.heading.measured(whole, figures)


def _text_choice(index: int, text: str, finish_reason: str | None) -> Object:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}

"""A request becomes sequences, or is refused: everything checkable is checked here, before the engine hears of it.

Pure: no engine, no event loop. It may take long (a large text is tokenised), so the server runs it on a thread.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from inference.protocol import Accepted, EngineError, GenerationRequest, SamplingParams
from inference.sequence import Prediction, Sequence
from inference.server.size import far_over
from inference.tokenizer import Tokenizer

MAX_PREDICTION = 4
"""A prediction may be this many times as long as the context."""

Spell = Callable[[str, Tokenizer], Prediction]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine behind can take."""

    max_model_len: int
    vocab_size: int
    allow_forced_output: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that will run: one sequence a choice."""

    accepted: Accepted
    sequences: list[Sequence]


def parse(body: bytes) -> GenerationRequest:
    """Raises EngineError."""
    try:
        return GenerationRequest.model_validate_json(body)
    except ValidationError as error:
        raise malformed("request", "invalid_request", error) from None


def malformed(what: str, code: str, error: ValidationError) -> EngineError:
    """Names the first member at fault, and never repeats its value."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, problem["loc"]))
    told = f"The {what} is malformed{' at ' + where if where else ''}: {problem['msg']}"
    return EngineError(400, code, told, where or None)


class Intake:
    """Knows the tokenizer and the limits of one engine."""

    def __init__(self, tokenizer: Tokenizer, spell: Spell, limits: Limits) -> None:
        self._tokenizer = tokenizer
        self._spell = spell
        self._limits = limits

    def admit(self, request: GenerationRequest) -> Admission:
        """Raises EngineError where the request can never run."""
        forced = self._forced(request)
        param, prompt = self._prompt(request)
        self._require_room(param, len(prompt))
        prediction = self._prediction(request)
        sampling = self._filled(request.sampling, len(prompt))
        sequences: list[Sequence] = []
        for choice in range(sampling.n):
            sequences.append(self._sequence(request, choice, prompt, sampling, prediction, forced))
            sequences[choice].leader = sequences[0] if choice else None
        num_predicted = prediction.num_tokens if prediction else 0
        return Admission(Accepted(prompt_tokens=len(prompt), prediction_tokens=num_predicted), sequences)

    def _prompt(self, request: GenerationRequest) -> tuple[str, list[int]]:
        """The prompt's ids, and the member that gave them."""
        given = [name for name in ("messages", "prompt", "prompt_token_ids") if getattr(request, name) is not None]
        if len(given) != 1:
            told = f"Give exactly one of messages, prompt and prompt_token_ids; {len(given)} were given."
            raise EngineError(400, "invalid_request", told, given[-1] if given else "messages")
        if request.messages is not None:
            self._require_sane("messages", [message.content for message in request.messages])
            return "messages", self._tokenizer.chat(request.messages)
        if request.prompt is not None:
            self._require_sane("prompt", [request.prompt])
            return "prompt", self._tokenizer.prompt(request.prompt)
        assert request.prompt_token_ids is not None
        return "prompt", self._known(request.prompt_token_ids)

    def _known(self, ids: tuple[int, ...]) -> list[int]:
        for token_id in ids:
            if not 0 <= token_id < self._limits.vocab_size:
                told = f"Token id {token_id} is not in the model's vocabulary of {self._limits.vocab_size}."
                raise EngineError(400, "invalid_token_id", told, "prompt")
        return list(ids)

    def _require_sane(self, param: str, texts: list[str]) -> None:
        """A text that is far too long is refused before all of it is read."""
        if counted := far_over(texts, self._limits.max_model_len, self._tokenizer.encode):
            raise self._no_room(param, f"more than {counted}")

    def _require_room(self, param: str, length: int) -> None:
        if length == 0:
            raise EngineError(400, "empty_prompt", f"The {param} must hold at least one token.", param)
        if length >= self._limits.max_model_len:
            raise self._no_room(param, str(length))

    def _no_room(self, param: str, length: str) -> EngineError:
        told = (
            f"This model's maximum context length is {self._limits.max_model_len} tokens. However, your {param} "
            f"resulted in {length} tokens, which leaves no room for an answer. Shorten the {param}."
        )
        return EngineError(400, "context_length_exceeded", told, param)

    def _prediction(self, request: GenerationRequest) -> Prediction | None:
        text, limit = request.prediction, MAX_PREDICTION * self._limits.max_model_len
        if not text:
            return None
        if counted := far_over([text], limit, self._tokenizer.encode):
            raise _too_long_a_prediction(f"more than {counted}", limit)
        # A token has a byte at least, so only a text of more bytes than the limit must be counted before it is spelled.
        if len(text.encode()) > limit and (length := len(self._tokenizer.encode(text))) > limit:
            raise _too_long_a_prediction(str(length), limit)
        return self._spell(text, self._tokenizer)

    def _forced(self, request: GenerationRequest) -> tuple[int, ...] | None:
        if request.forced_output is None:
            return None
        if not self._limits.allow_forced_output:
            told = "forced_output is for benchmarks: start the worker with --allow-forced-output to use it."
            raise EngineError(400, "forced_output_refused", told, "forced_output")
        return tuple(self._tokenizer.encode(request.forced_output))

    def _filled(self, sampling: SamplingParams, prompt_len: int) -> SamplingParams:
        """A seed where none was given, and never more tokens than the context leaves."""
        room = self._limits.max_model_len - prompt_len
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        return sampling.model_copy(update={"seed": seed, "max_tokens": min(room, sampling.max_tokens or room)})

    def _sequence(
        self,
        request: GenerationRequest,
        choice: int,
        prompt: list[int],
        sampling: SamplingParams,
        prediction: Prediction | None,
        forced: tuple[int, ...] | None,
    ) -> Sequence:
        return Sequence(
            request_id=request.request_id,
            choice=choice,
            tokens=list(prompt),
            prompt_len=len(prompt),
            sampling=sampling,
            text=self._tokenizer.text(sampling.stop),
            cache_salt=request.cache_salt,
            prediction=prediction,
            speculate=request.speculation.mode == "auto",
            strict_resync=request.speculation.resync == "strict",
            forced=forced,
            priority=request.priority,
        )


def _too_long_a_prediction(length: str, limit: int) -> EngineError:
    told = f"The prediction has {length} tokens; it may have {limit}, {MAX_PREDICTION} times the context length."
    return EngineError(400, "prediction_too_long", told, "prediction")

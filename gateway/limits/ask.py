"""What a request may come to at most: guessed from its bytes before the engine has seen it, known after.

    input    a token is at least a byte, so the text's UTF-8 bytes are enough; the chat template adds a few
    output   each choice may use its limit, and its whole prediction where rejected tokens are billed

Pure: it asks nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.protocol import GenerationRequest
from storage.money import FREE, Price

TEMPLATE_TOKENS = 64
"""A template's own words, such as a default system message."""
MESSAGE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Size:
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Ask:
    """One HTTP request, which may be several engine requests."""

    request_id: str
    model: str
    """The deployment's name."""
    runs: tuple[GenerationRequest, ...]
    context: int | None
    """The longest prompt and answer together; None while the engine does not say."""
    bills_rejected: bool = False
    price: Price = FREE
    """At its admission."""

    @property
    def is_bounded(self) -> bool:
        return self.context is not None or all(run.sampling.max_tokens is not None for run in self.runs)

    def guess(self) -> Size:
        sizes = [(_input_bytes(run), len((run.prediction or "").encode())) for run in self.runs]
        return Size(sum(size for size, _ in sizes), self._output([(0, prediction) for _, prediction in sizes]))

    def known(self, sizes: Sequence[tuple[int, int]]) -> Size:
        """`sizes`: prompt and prediction tokens of each run, as the engine counted them."""
        return Size(sum(prompt for prompt, _ in sizes), self._output(sizes))

    def _output(self, sizes: Sequence[tuple[int, int]]) -> int:
        return sum(
            run.sampling.n * (self._limit(run, prompt) + (prediction if self.bills_rejected else 0))
            for run, (prompt, prediction) in zip(self.runs, sizes, strict=True)
        )

    def _limit(self, run: GenerationRequest, prompt: int) -> int:
        bounds = [run.sampling.max_tokens, None if self.context is None else max(0, self.context - prompt)]
        return min((bound for bound in bounds if bound is not None), default=0)


def _input_bytes(run: GenerationRequest) -> int:
    if run.prompt_token_ids is not None:
        return len(run.prompt_token_ids)
    if run.messages is None:
        return TEMPLATE_TOKENS + len((run.prompt or "").encode())
    texts = sum(len(message.content.encode()) for message in run.messages)
    return TEMPLATE_TOKENS + MESSAGE_TOKENS * len(run.messages) + texts

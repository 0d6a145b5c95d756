"""Replays of real edits: the engine drafts, verifies and commits as ever, and the tokens it emits are dictated."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from inference.config import EngineConfig
from inference.engine.engine import Engine, Model
from inference.protocol import SamplingParams, TokenUsage
from inference.sequence import Sequence
from inference.speculation.spelling import spell
from tests.fakes import FakeModel
from tests.inference.edits import Edit, text_tokenizer

EOS = 0
Text = Callable[[Edit], str]


class DictatedModel(FakeModel):
    """Computes every row; as its choice is replaced, logits over a few ids do."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(vocab_size=8, num_blocks=config.num_blocks, block_size=config.block_size)
        self.vocab_size = text_tokenizer().vocab_size

    def logits(self, contexts: object) -> torch.Tensor:
        assert isinstance(contexts, list)
        return torch.zeros(len(contexts), 8)


class NoText:
    """A replay is read as token ids."""

    def push(self, token_id: int) -> bool:
        return False

    def take(self) -> str:
        return ""

    def finish(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Replay:
    """Sums over rows."""

    tokens: int
    steps: int
    drafted: int
    accepted: int

    @property
    def tokens_a_step(self) -> float:
        return self.tokens / self.steps

    @property
    def rejected_a_token(self) -> float:
        return (self.drafted - self.accepted) / self.tokens


def replay(
    rows: Iterable[Edit], prediction: Text, reply: Text, config: EngineConfig, model: Model | None = None
) -> dict[str, TokenUsage]:
    """Row → what it used. Every row emits exactly its reply and the end of text."""
    engine = Engine(model or DictatedModel(config), config, frozenset({EOS}), clock=lambda: 0.0)
    dictated: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    usages: dict[str, TokenUsage] = {}
    for row in rows:
        seq = sequence(row, prediction(row), reply(row))
        dictated[row.id] = [*(seq.forced or ()), EOS]
        engine.add(seq)
    while engine.has_work:
        for output in engine.step():
            written.setdefault(output.request_id, []).extend(output.event.token_ids)
            usages |= {output.request_id: output.event.usage} if output.event.usage else {}
    assert written == dictated
    return usages


def sequence(row: Edit, prediction: str, reply: str) -> Sequence:
    tokenizer = text_tokenizer()
    prompt, forced = tokenizer.encode(row.prompt), tokenizer.encode(reply)
    return Sequence(
        request_id=row.id,
        choice=0,
        tokens=prompt,
        prompt_len=len(prompt),
        sampling=SamplingParams(temperature=0.0, seed=0, max_tokens=len(forced) + 1),
        text=NoText(),
        prediction=spell(prediction, tokenizer),
        forced=tuple(forced),
    )


def total(usages: Iterable[TokenUsage]) -> Replay:
    """The figures of the prediction proposer, and the identity that every row keeps."""
    usages = list(usages)
    for usage in usages:
        speculation = usage.speculation
        assert usage.completion_tokens - 1 == speculation.steps + speculation.accepted_delivered
        assert speculation.rejected_prediction_tokens <= speculation.prediction_tokens
    by_prediction = [usage.speculation.by_proposer["prediction"] for usage in usages]
    return Replay(
        tokens=sum(usage.completion_tokens - 1 for usage in usages),
        steps=sum(usage.speculation.steps for usage in usages),
        drafted=sum(stats.drafted for stats in by_prediction),
        accepted=sum(stats.accepted for stats in by_prediction),
    )

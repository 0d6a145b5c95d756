"""The engine: sequences in, tokens out, one pass at a time.

`step` is the whole of it: schedule → forward → sample → verify → commit → propose. Everything a sequence emits is cut
once, here, at end of text, stop string or length, before cache, usage and metrics see it. The engine knows token ids
and opaque salts; it knows no HTTP, no tenant, no template. It runs on one thread (`worker.py`).
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

from inference.config import EngineConfig, SpeculationConfig
from inference.engine.queue_limit import SaltQueue, overdue
from inference.engine.scheduler import Scheduler
from inference.engine.tally import Tally
from inference.model.sampling import INVALID, sample
from inference.protocol import Failure, FinishReason, TokenEvent, WorkerLoad
from inference.sequence import NO_DRAFT, Batch, Chunk, SampleRow, Sequence, Status
from inference.speculation.build import build_drafter
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost
from inference.speculation.proposer import DraftItem
from inference.speculation.verify import verify


class Model(Protocol):
    """The one seam below the engine; tests put a fake model here."""

    @property
    def vocab_size(self) -> int: ...

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute a pass. Logits (R, V) of its sampled rows, in order."""
        ...


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step has to say to one request."""

    request_id: str
    event: TokenEvent


class Engine:
    """Owns the scheduler, the drafter and every sequence's tally."""

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        eos_token_ids: frozenset[int],
        clock: Callable[[], float] = time.perf_counter,
        drafter: Callable[[SpeculationConfig, PassCost, int], Drafter] = build_drafter,
    ) -> None:
        self._model = model
        self._config = config
        self._eos = eos_token_ids
        self._clock = clock
        self._build_drafter = drafter
        self._scheduler = Scheduler(config)
        self._cost = PassCost()
        self._tallies: dict[Sequence, Tally] = {}
        self._emitted: dict[Sequence, int] = {}
        self._passes = 0
        self.set_speculation(config.speculation)

    @property
    def max_queue_seconds(self) -> float:
        return self._config.max_queue_seconds

    @property
    def speculation(self) -> SpeculationConfig:
        """The drafter configuration at work."""
        return self._speculation

    @property
    def has_work(self) -> bool:
        return bool(self._tallies)

    def add(self, seq: Sequence) -> None:
        assert seq.prompt_len + 1 <= self._config.max_model_len <= self._config.num_blocks * self._config.block_size
        self._tallies[seq] = Tally(arrived=self._clock())
        self._emitted[seq] = 0
        self._scheduler.add(seq)
        self._propose([seq])

    def abort(self, request_id: str) -> list[StepOutput]:
        """End a request's open choices; what they used is in their last events."""
        return [self._finish(s, [], "abort") for s in list(self._tallies) if s.request_id == request_id]

    def set_speculation(self, config: SpeculationConfig) -> None:
        """Change the drafter between two steps. Verification is exact, so no request's text changes."""
        # Built first: what cannot be built leaves the old one at work.
        self._drafter = self._build_drafter(config, self._cost, self._model.vocab_size)
        self._speculation = config
        for seq in self._tallies:
            seq.draft = NO_DRAFT
            seq.memory.clear()
        self._propose(list(self._tallies))

    def queues(self) -> dict[str, SaltQueue]:
        """Salt → its queue, where anything of it waits that never ran."""
        oldest: dict[str, float] = {}
        for seq in self._never_ran():
            oldest[seq.cache_salt] = min(oldest.get(seq.cache_salt, math.inf), self._tallies[seq].arrived)
        running = Counter(seq.cache_salt for seq in self._scheduler.running)
        return {salt: SaltQueue(self._clock() - arrived, running[salt]) for salt, arrived in oldest.items()}

    def refuse_overdue(self) -> dict[str, Failure]:
        """Give up what never ran for `max_queue_seconds`: request → what to tell it."""
        limit = self._config.max_queue_seconds
        latest = self._clock() - limit
        late = {seq.request_id: seq.cache_salt for seq in self._never_ran() if self._tallies[seq].arrived <= latest}
        queues = self.queues() if late else {}
        for request_id in late:
            self.abort(request_id)
        return {request_id: overdue(queues[salt], limit) for request_id, salt in late.items()}

    def _never_ran(self) -> list[Sequence]:
        waiting = self._scheduler.waiting
        return [seq for seq in waiting if seq.leader is None and self._tallies[seq].scheduled is None]

    def load(self) -> WorkerLoad:
        cache = self._scheduler.cache
        return WorkerLoad(
            waiting=len(self._scheduler.waiting),
            running=len(self._scheduler.running),
            free_blocks=cache.num_free,
            num_blocks=cache.num_blocks,
            passes=self._passes,
            preemptions=self._scheduler.preemptions,
            config_version=self._speculation.version,
            config_origin=self._speculation.origin,
            drafter_faults=dict(self._drafter.faults),
            resting_drafters=self._drafter.resting,
        )

    def check(self) -> None:
        """Assert what must hold between two steps."""
        self._scheduler.check()
        assert set(self._tallies) == {*self._scheduler.running, *self._scheduler.waiting}

    def step(self) -> list[StepOutput]:
        batch = self._schedule()
        sampled = self._forward(batch)
        verified = [tokens and verify(tokens, c.draft.tokens) for c, tokens in zip(batch.chunks, sampled, strict=True)]
        outputs = [self._commit(chunk, kept) for chunk, kept in zip(batch.chunks, verified, strict=True)]
        self._propose([chunk.seq for chunk in batch.chunks if chunk.num_sampled])
        return [output for output in outputs if output]

    def _schedule(self) -> Batch:
        batch = self._scheduler.schedule()
        now = self._clock()
        for chunk in batch.chunks:
            self._tallies[chunk.seq].begin(now, cached=chunk.start)
        return batch

    def _forward(self, batch: Batch) -> list[list[int]]:
        """The target's choice for every sampled row, by chunk."""
        start = self._clock()
        logits = self._model.forward(batch)
        sampled = iter(sample(logits, [row for chunk in batch.chunks for row in self._sample_rows(chunk)]))
        seconds = self._clock() - start
        self._passes += 1
        self._cost.observe(batch.num_rows, seconds)
        for chunk in batch.chunks:
            self._tallies[chunk.seq].passed(seconds, len(chunk.tokens), batch.num_rows, len(batch.chunks))
        return [[next(sampled) for _ in range(chunk.num_sampled)] for chunk in batch.chunks]

    def _sample_rows(self, chunk: Chunk) -> Iterable[SampleRow]:
        seq = chunk.seq
        for position in range(seq.num_output, seq.num_output + chunk.num_sampled):
            yield SampleRow(seq.sampling, seq.choice, position, self._forced(seq, position))

    def _forced(self, seq: Sequence, position: int) -> int | None:
        if seq.forced is None:
            return None
        return seq.forced[position] if position < len(seq.forced) else min(self._eos)

    def _commit(self, chunk: Chunk, kept: list[int]) -> StepOutput | None:
        seq, tally = chunk.seq, self._tallies[chunk.seq]
        if not chunk.num_sampled:
            tally.idled()
            self._scheduler.commit(chunk)
            return None
        delivered, reason = self._append(seq, kept)
        if delivered:
            tally.delivered(self._clock(), len(delivered), chunk.draft, len(kept) - 1, self._speculation.version)
        else:
            tally.idled()
        if chunk.draft:
            self._drafter.observe(seq.memory, chunk.draft, len(kept) - 1)
        seq.draft = NO_DRAFT
        if reason == "error":
            return self._finish(seq, delivered, reason)
        self._scheduler.commit(chunk)
        return self._finish(seq, delivered, reason) if reason else self._output(seq, delivered, seq.text.take())

    def _append(self, seq: Sequence, kept: list[int]) -> tuple[list[int], FinishReason | None]:
        """Append verified tokens up to where the choice ends: the one place where an accepted run is cut."""
        for count, token in enumerate(kept):
            if token == INVALID:
                return kept[:count], "error"
            seq.tokens.append(token)
            if token in self._eos and not seq.sampling.ignore_eos:
                return kept[: count + 1], "stop"
            if seq.text.push(token):
                return kept[: count + 1], "stop"
            if not seq.room:
                return kept[: count + 1], "length"
        return kept, None

    def _finish(self, seq: Sequence, delivered: list[int], reason: FinishReason) -> StepOutput:
        tally = self._tallies.pop(seq)
        self._scheduler.remove(seq)
        if seq.speculate:
            self._drafter.finish(_draft_item(seq))
        output = self._output(seq, delivered, seq.text.finish())
        usage = tally.usage(seq, self._clock())
        del self._emitted[seq]
        return StepOutput(seq.request_id, output.event.model_copy(update={"finish_reason": reason, "usage": usage}))

    def _output(self, seq: Sequence, delivered: list[int], text: str) -> StepOutput:
        seq_no = self._emitted[seq]
        self._emitted[seq] += 1
        event = TokenEvent(choice=seq.choice, seq_no=seq_no, token_ids=tuple(delivered), text=text)
        return StepOutput(seq.request_id, event)

    def _propose(self, seqs: list[Sequence]) -> None:
        """Draft what each of these sequences may say next."""
        start = self._clock()
        drafted = [s for s in seqs if s.status is not Status.FINISHED and s.speculate and s.room > 1]
        if not drafted:
            return
        proposals = self._drafter.draft([_draft_item(s) for s in drafted], len(self._scheduler.running))
        for seq, proposal in zip(drafted, proposals, strict=True):
            seq.draft = proposal
        seconds = self._clock() - start
        for seq in drafted:
            self._tallies[seq].drafted(seconds)


def _draft_item(seq: Sequence) -> DraftItem:
    return DraftItem(
        tokens=seq.tokens,
        prompt_len=seq.prompt_len,
        max_tokens=seq.room - 1,
        memory=seq.memory,
        prediction=seq.prediction,
        strict_resync=seq.strict_resync,
        cache_salt=seq.cache_salt,
    )

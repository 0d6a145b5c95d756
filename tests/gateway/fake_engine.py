"""An engine by script: the one fake of the gateway's tests. It counts as the real one must.

Each choice emits the script's words, one token each: the first alone (it comes from prefill), then `step` at a time,
of which all but one count as accepted from the prediction. It keeps what it saw, so that tests can look.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.supervisor import EngineState, Phase
from inference.protocol import (
    Accepted,
    EngineError,
    FinishReason,
    GenerationRequest,
    ProposerStats,
    SpeculationStats,
    Timings,
    TokenEvent,
    TokenUsage,
    WorkerLoad,
    WorkerReady,
)
from inference.speculation_config import SpeculationConfig

WORDS = ("Hello", ",", " world", "!")


@dataclass(frozen=True)
class Script:
    words: tuple[str, ...] = WORDS
    step: int = 1
    finish: FinishReason = "stop"
    prompt_tokens: int = 7
    cached_tokens: int = 3
    rejected: int = 0
    """Rejected prediction tokens a choice."""
    refuse: EngineError | None = None
    """Raised in place of `accepted`."""
    before_accept: float = 0.0
    before_first: float = 0.0
    gap: float = 0.0
    """Seconds between steps."""
    hold_at: int | None = None
    """After so many tokens, wait for `release` (or the abort)."""
    fail_at: int | None = None
    """After so many tokens, raise `error`."""
    error: EngineError = field(default_factory=lambda: EngineError(500, "engine_lost", "The engine stopped."))
    ends_early: bool = False
    """Stop without a last word."""
    deaf: bool = False
    """Ignore aborts."""


class Choice:
    def __init__(self, index: int) -> None:
        self.index = index
        self.seq_no = self.sent = self.steps = self.accepted = 0

    def usage(self, script: Script) -> TokenUsage:
        drafted = self.accepted + script.rejected
        stats = ProposerStats(drafts=self.steps, drafted=drafted, accepted=self.accepted)
        return TokenUsage(
            prompt_tokens=script.prompt_tokens,
            cached_tokens=script.cached_tokens,
            completion_tokens=self.sent,
            timings=Timings(queue=0.001, prefill=0.01, decode=0.02),
            speculation=SpeculationStats(
                steps=self.steps,
                accepted_delivered=self.accepted,
                prediction_tokens=max(self.accepted, script.rejected),
                rejected_prediction_tokens=script.rejected,
                by_proposer={"prediction": stats} if drafted else {},
            ),
            config_versions={1: self.steps},
        )

    def emit(self, script: Script, finish: FinishReason | None = None) -> TokenEvent:
        """The next tokens; `abort` emits none."""
        size = 0 if finish == "abort" else 1 if not self.sent else script.step
        words = script.words[self.sent : self.sent + size]
        if self.sent and words:
            self.steps += 1
            self.accepted += len(words) - 1
        ids = tuple(range(self.sent, self.sent + len(words)))
        self.sent += len(words)
        finish = finish or (script.finish if self.sent == len(script.words) else None)
        self.seq_no += 1
        return TokenEvent(
            choice=self.index,
            seq_no=self.seq_no - 1,
            token_ids=ids,
            text="".join(words),
            finish_reason=finish,
            usage=self.usage(script) if finish else None,
        )


class FakeEngine:
    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.state = EngineState("ready", "The engine is ready.")
        self.requests: list[GenerationRequest] = []
        self.aborted: list[str] = []
        self.closed: list[str] = []
        """Streams that ended, however."""
        self.sent = 0
        self.made: dict[str, int] = {}
        """Request → tokens it was given."""
        self.config = SpeculationConfig(version=0)
        """The drafters it was told to run."""
        self.refuses: EngineError | None = None
        """Raised in place of running other drafters."""
        self.release = asyncio.Event()
        self._aborts: dict[str, asyncio.Event] = {}

    def become(self, phase: Phase, detail: str = "The engine is ready.") -> None:
        self.state = EngineState(phase, detail)

    def script_of(self, request: GenerationRequest) -> Script:
        """Of this request: all have the same, but for heirs."""
        return self.script

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        script = self.script_of(request)
        self.requests.append(request)
        self.made[request.request_id] = 0
        self._aborts[request.request_id] = asyncio.Event()
        try:
            if script.refuse:
                raise script.refuse
            await self._pause(request, script.before_accept)
            yield Accepted(prompt_tokens=script.prompt_tokens)
            choices = [Choice(index) for index in range(request.sampling.n)]
            await self._pause(request, script.before_first)
            async for event in self._steps(request, script, choices):
                self.sent += len(event.token_ids)
                self.made[request.request_id] += len(event.token_ids)
                yield event
        finally:
            self.closed.append(request.request_id)

    async def ready(self) -> WorkerReady:
        return WorkerReady(model="fake", max_model_len=8192, vocab_size=100, fingerprint="fake-fp32")

    async def load(self) -> WorkerLoad:
        busy = len(self.requests) - len(self.closed)
        config = {"config_version": self.config.version, "config_origin": self.config.origin}
        return WorkerLoad(waiting=0, running=busy, free_blocks=9, num_blocks=9, passes=0, **config)

    async def set_speculation(self, config: SpeculationConfig) -> None:
        if self.refuses:
            raise self.refuses
        self.config = config

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        if request_id in self._aborts and not self.script.deaf:
            self._aborts[request_id].set()

    async def _steps(
        self, request: GenerationRequest, script: Script, choices: list[Choice]
    ) -> AsyncIterator[TokenEvent]:
        while choices[-1].sent < len(script.words):
            sent = choices[-1].sent
            if script.hold_at is not None and sent >= script.hold_at and not self.release.is_set():
                await self._released(request)
            if self._aborts[request.request_id].is_set():
                for choice in choices:
                    yield choice.emit(script, "abort")
                return
            if script.fail_at is not None and sent >= script.fail_at:
                if script.ends_early:
                    return
                raise script.error
            for choice in choices:
                yield choice.emit(script)
            await self._pause(request, script.gap)

    async def _pause(self, request: GenerationRequest, seconds: float) -> None:
        """Cut short by the abort."""
        if seconds:
            try:
                async with asyncio.timeout(seconds):
                    await self._aborts[request.request_id].wait()
            except TimeoutError:
                pass

    async def _released(self, request: GenerationRequest) -> None:
        waits = [asyncio.ensure_future(e.wait()) for e in (self.release, self._aborts[request.request_id])]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

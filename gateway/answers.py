"""The responses of a completion, streamed or whole: admitted, told, and settled on every exit.

Three things may end an answer besides its own end: the client leaves, its key is revoked, the gateway goes out of
service. Settlement runs in the response's own `__call__`, shielded: in a body generator's `finally` it would be
cancelled together with the connection, and the usage lost.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admission import Admission, Grant
from gateway.auth import Authenticator, Principal
from gateway.completion import Completion
from gateway.drain import Drain
from gateway.errors import ApiError, InvalidApiKey, as_api_error
from gateway.limits.ask import Ask
from gateway.metrics.of_request import settled_of
from gateway.metrics.registry import Metrics
from gateway.openai import sse
from gateway.openai.translate import Answer, Choice
from gateway.settings import Settings
from gateway.telemetry import note
from gateway.telling import Telling
from gateway.told_headers import at_end, at_start
from gateway.wire import Gone, Wire
from inference.protocol import EngineError
from storage.values import Figures, Outcome

WATCH_SECONDS = 0.05
"""Whoever leaves earlier is missed then: most of a short answer's time would go into watching over it."""
ENGINE_GONE = frozenset({"engine_lost", "engine_failed"})
"""Codes of an engine that died under its requests: billed is what was delivered."""


@dataclass(frozen=True, slots=True)
class Service:
    """What every answer needs of the gateway it runs in."""

    settings: Settings
    authenticator: Authenticator
    admission: Admission
    drain: Drain
    metrics: Metrics


class CompletionResponse(Response):
    """Is admitted, opens, tells, settles. `tell` is the whole difference between streamed and not."""

    def __init__(
        self, completion: Completion, ask: Ask, answer: Answer, principal: Principal, service: Service
    ) -> None:
        super().__init__()
        self.completion, self.answer = completion, answer
        self.principal, self.service = principal, service
        self.grant = Grant(ask)
        self._began = time.perf_counter()

    @abstractmethod
    async def tell(self, wire: Wire) -> None: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.service.admission.admit(self.principal, self.grant):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = Wire(send, self.service.settings.stall_seconds)
        outcome: Outcome = "error"
        try:
            with self.service.drain.answering():
                await unless(lambda: self._run(wire), *self._watchers(receive), after=WATCH_SECONDS)
        except Gone:
            outcome = "disconnected"
        except (ApiError, EngineError) as error:
            outcome = self._outcome(error)
            await self.completion.settle(outcome)
            if not wire.has_started:
                told = as_api_error(error)
                told.headers = self.grant.headers | told.headers
                raise told from error
            with suppress(Gone):
                await wire.write(sse.error_frame(as_api_error(error)), is_last=True)
        finally:
            if self.completion.settled is None:
                with anyio.CancelScope(shield=True):
                    await self.completion.settle(outcome)
            self._close(scope)

    async def _run(self, wire: Wire) -> None:
        await self.completion.open()
        await self.tell(wire)

    async def _correct(self) -> None:
        """Once the engine has counted: what is held becomes what it can come to. Raises RateLimited, QuotaExceeded."""
        if self.completion.is_accepted:
            await self.service.admission.correct(self.grant, self.completion.meter.sizes)

    def _watchers(self, receive: Receive) -> tuple[Callable[[], Awaitable[None]], ...]:
        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            raise Gone

        async def cut() -> None:
            await self.service.drain.cut.wait()
            self.service.drain.refuse_new()

        async def revoked() -> None:
            pause = self.service.settings.revocation_seconds
            await asyncio.sleep(pause)  # it was good a moment ago
            while not await self.service.authenticator.is_revoked(self.principal):
                await asyncio.sleep(pause)
            raise InvalidApiKey

        return gone, cut, revoked

    def _outcome(self, error: ApiError | EngineError) -> Outcome:
        if self.grant.is_refused:
            return "refused"
        is_lost = isinstance(error, EngineError) and error.failure.code in ENGINE_GONE
        return "engine_lost" if is_lost and self.completion.is_accepted else "error"

    def _close(self, scope: Scope) -> None:
        figures = self.completion.settled
        assert figures is not None
        if self.completion.is_charged:
            self.grant.ran(figures)
        self._count(figures)
        note(
            scope,
            outcome=self.completion.outcome,
            model=self.completion.job.entry.model,
            prompt_tokens=figures.prompt_tokens,
            generated_tokens=figures.generated_tokens,
            delivered_tokens=figures.delivered_tokens,
            passes_saved=figures.accepted_delivered,
            **{f"{name}_seconds": round(seconds, 6) for name, seconds in figures.timings.items()},
        )

    def _count(self, figures: Figures) -> None:
        completion, seconds = self.completion, time.perf_counter() - self._began
        if completion.is_recorded and completion.outcome is not None:
            told = settled_of(completion.job, self.grant.ask.model, completion.outcome, figures, seconds)
            self.service.metrics.settled(told)


class StreamedResponse(CompletionResponse):
    async def tell(self, wire: Wire) -> None:
        completion, settings = self.completion, self.service.settings
        await completion.accepted(settings.header_seconds)
        await self._correct()
        await wire.start(200, sse.HEADERS | self.grant.headers | at_start(completion.job.entry))
        telling = Telling(self.answer, completion, wire)
        async for burst in completion.events(settings.keepalive_seconds):
            if not burst:
                await wire.write(sse.KEEP_ALIVE)
                continue
            await self._correct()
            await telling.tell(burst)
            if self.grant.is_corrected:
                completion.tell_at_once(telling)
        await self._finish(wire)

    async def _finish(self, wire: Wire) -> None:
        figures = await self.completion.settle("completed")
        if self.answer.heading.has_last_chunk:
            await wire.write(sse.frame(self.answer.usage_chunk(figures)))
        await wire.write(sse.DONE, is_last=True)


class WholeResponse(CompletionResponse):
    async def tell(self, wire: Wire) -> None:
        completion = self.completion
        await completion.accepted()
        await self._correct()
        texts: dict[int, list[str]] = {}
        reasons: dict[int, str] = {}
        async for burst in completion.events():
            for index, event in burst:
                texts.setdefault(index, []).append(event.text)
                if event.finish_reason:
                    reasons[index] = event.finish_reason
        completion.wrote(completion.meter.generated)
        figures = await completion.settle("completed")
        choices = [Choice("".join(texts[index]), reasons[index]) for index in sorted(reasons)]
        body = sse.json_bytes(self.answer.whole(choices, figures))
        heading = {"content-type": "application/json", "content-length": str(len(body))}
        await wire.start(200, heading | self.grant.headers | at_end(completion.job.entry, figures))
        await wire.write(body, is_last=True)


async def unless(
    work: Callable[[], Awaitable[None]], *watchers: Callable[[], Awaitable[None]], after: float = 0.0
) -> None:
    """Run `work`; the first watcher that raises ends it, and that is then raised. They begin `after` seconds."""
    this = asyncio.current_task()
    assert this is not None
    failure: BaseException | None = None
    watching: list[asyncio.Task[None]] = []

    def watch() -> None:
        watching.extend(asyncio.ensure_future(watcher()) for watcher in watchers)
        for task in watching:
            task.add_done_callback(on_end)

    def on_end(ended: asyncio.Task[None]) -> None:
        nonlocal failure
        if failure is None and not ended.cancelled() and (failure := ended.exception()):
            this.cancel()  # it waits inside `work`, since nothing waits after it

    timer = asyncio.get_running_loop().call_later(after, watch)
    try:
        await work()
    except asyncio.CancelledError:
        if failure is None or this.uncancel() > 0:
            raise
        raise failure from None
    finally:
        timer.cancel()
        for task in watching:
            task.remove_done_callback(on_end)
            task.cancel()

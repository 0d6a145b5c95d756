"""The one path that all endpoints share: an opened, running, metered and settled request.

    open  →  accepted  →  events …  →  settle                 the ledger's entry spans all of it

Engine streams are read by tasks of their own, so that whoever listens may be cancelled at any await while the
engine's last word is still awaited. `settle` happens once, and whoever asks first says how the request ended: it
aborts what still runs, waits a bounded while for the usage, and writes.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, cast

from gateway.arrivals import Arrivals
from gateway.books import Books
from gateway.metering import Meter
from gateway.settings import Settings
from inference.protocol import Accepted, EngineError, GenerationRequest, InferenceClient, TokenEvent
from storage.idempotency import Claim
from storage.values import Figures, OpenEntry, Outcome, Settlement

Arrival = tuple[int, Accepted | TokenEvent | Exception]
Burst = list[tuple[int, TokenEvent]]
"""(index of the choice, event) of what came together."""


class Listener(Protocol):
    @property
    def is_due(self) -> bool:
        """Whether it can be told now."""
        ...

    def at_once(self, burst: Burst) -> bool:
        """True where that is all; False where the reader should look."""
        ...


MOST_AT_ONCE = 16
"""So that a client that reads slowly is noticed before all was handed to its connection."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one HTTP request asks of which engine, on whose account. All its runs have the same `n`."""

    runs: tuple[GenerationRequest, ...]
    client: InferenceClient
    entry: OpenEntry
    claim: Claim | None = None
    """The client's own name for it."""
    drafter: str = "none"
    """The kind that its deployment had at its admission."""

    @property
    def n(self) -> int:
        return self.runs[0].sampling.n


class Completion:
    """One job on its way."""

    def __init__(self, job: Job, books: Books, settings: Settings) -> None:
        self.job = job
        self.meter = Meter(len(job.runs), job.n, job.entry.rejected_prediction)
        self._books, self._settings = books, settings
        self._arrivals: Arrivals[Arrival] = Arrivals()
        self._listener: Listener | None = None
        self._early: Burst = []
        """Came from one run before another was accepted."""
        self._not_accepted = len(job.runs)
        self._not_finished = len(job.runs) * job.n
        self.is_recorded = False
        """Whether the ledger knows of it."""
        self._pumps: list[asyncio.Task[None]] = []
        self._noting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._noted = Figures()
        self._num_notes = 0
        self._due = asyncio.Event()
        self._settling: asyncio.Task[Figures] | None = None
        self.settled: Figures | None = None
        """What it used, once that is in the ledger."""
        self.outcome: Outcome | None = None
        """How it ended; None while it runs."""

    @property
    def is_accepted(self) -> bool:
        return self._not_accepted == 0

    @property
    def is_charged(self) -> bool:
        """Whether it counts against limits: the engine took it, or might have for a client that left."""
        return (self.is_accepted and self.outcome != "refused") or self.outcome == "disconnected"

    async def open(self) -> None:
        """When this returns the ledger knows of it and the engine was asked. Raises StorageUnavailable, Conflict."""
        await self._books.open(self.job.entry, self.job.claim)
        self.is_recorded = True
        self._pumps = [asyncio.create_task(self._pump(run)) for run in range(len(self.job.runs))]
        self._timer = asyncio.get_running_loop().call_later(self._settings.checkpoint_seconds, self._note)

    async def accepted(self, patience: float | None = None) -> None:
        """Returns when the engine has taken every run, or after `patience`. Raises EngineError."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        while not self.is_accepted:
            if not await self._arrivals.any(None if until is None else until - loop.time()):
                return
            arrival = self._next()
            self._early += [arrival] if arrival else []

    async def events(self, quiet: float | None = None) -> AsyncIterator[Burst]:
        """What came together; nothing whenever nothing came for `quiet` seconds. Raises EngineError."""
        while self._not_finished or self._early:
            has_come = bool(self._early) or await self._arrivals.any(quiet)
            if (burst := self._burst()) or not has_come:
                yield burst

    def tell_at_once(self, listener: "Listener") -> None:
        """While the reader of `events` waits, what comes is told to `listener`, as far as it is due."""
        self._listener = listener

    def wrote(self, tokens: int) -> None:
        """So many tokens reached the socket."""
        self.meter.delivered += tokens
        if self.meter.delivered - self._noted.delivered_tokens >= self._settings.checkpoint_tokens:
            self._note()

    async def settle(self, outcome: Outcome) -> Figures:
        """What it used. The first call says how it ended; a caller that is cancelled changes nothing."""
        if self.settled is None and self._settling is None:
            self.outcome = outcome
            if not self._settle_now(outcome):
                self._settling = asyncio.create_task(self._settle(outcome))
        if self.settled is None:
            assert self._settling is not None
            self.settled = await asyncio.shield(self._settling)
        return self.settled

    def _burst(self) -> Burst:
        """A failure waits until what came before it was told."""
        burst, self._early = self._early, []
        while self._arrivals and len(burst) < MOST_AT_ONCE:
            if burst and isinstance(self._arrivals.first()[1], Exception):
                break
            if arrival := self._next():
                burst.append(arrival)
        return burst

    def _next(self) -> tuple[int, TokenEvent] | None:
        run, event = self._arrivals.take()
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Accepted):
            self._not_accepted -= 1
            return None
        self._not_finished -= event.finish_reason is not None
        return run * self.job.n + event.choice, event

    async def _pump(self, run: int) -> None:
        """Read one engine stream to its end: observed at once, handed on in order."""
        try:
            async with aclosing(self._stream(run)) as stream:
                async for event in stream:
                    self.meter.observe(run, event)
                    self._arrived(run, _checked(event))
            if not self.meter.is_done(run):
                raise EngineError(500, "engine_error", "The engine ended its answer too early. Try it again.")
        except Exception as error:  # noqa: BLE001 - raised again by `_next`, to whoever listens
            self._arrived(run, error)

    def _arrived(self, run: int, event: Accepted | TokenEvent | Exception) -> None:
        self._arrivals.put((run, event))
        if self._is_told(event):
            self._arrivals.postpone()
        else:
            self._arrivals.wake()

    def _is_told(self, event: Accepted | TokenEvent | Exception) -> bool:
        """The last event and every failure are the reader's."""
        listener = self._listener
        if listener is None or not isinstance(event, TokenEvent) or event.finish_reason or not self.is_accepted:
            return False
        return self._arrivals.is_awaited and listener.is_due and listener.at_once(self._burst())

    def _stream(self, run: int) -> AsyncGenerator[Accepted | TokenEvent, None]:
        stream = self.job.client.generate(self.job.runs[run])
        return cast("AsyncGenerator[Accepted | TokenEvent, None]", stream)

    def _note(self) -> None:
        """The first checkpoint is due; most requests end before it."""
        self._due.set()
        if self._noting is None:
            self._noting = asyncio.create_task(self._note_progress())

    async def _note_progress(self) -> None:
        """A checkpoint every so many tokens or seconds, whichever is first."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.checkpoint_seconds):
                    await self._due.wait()
            self._due.clear()
            figures = self.meter.figures()
            if figures != self._noted:
                self._noted = figures
                self._num_notes += 1
                await self._books.checkpoint(self.job.entry, self._num_notes, figures)

    def _settle_now(self, outcome: Outcome) -> bool:
        """Where all was said and nothing else runs: as most requests end. False where it has to wait."""
        if outcome != "completed" or not self.is_recorded or self._noting is not None or not self.meter.is_final:
            return False
        figures = self.meter.figures(outcome)
        if not self._books.settle_now(self.job.entry, self._settlement(outcome, figures)):
            return False
        self._quiet()
        self._let_end()
        self.settled = figures
        return True

    async def _settle(self, outcome: Outcome) -> Figures:
        await self._stop(asks_engine=outcome != "engine_lost")
        figures = Figures() if outcome == "refused" else self.meter.figures(outcome)
        if self.is_recorded:
            await self._books.settle(self.job.entry, self._settlement(outcome, figures))
        return figures

    def _settlement(self, outcome: Outcome, figures: Figures) -> Settlement:
        return Settlement(self.job.entry.request_id, outcome, figures)

    def _quiet(self) -> None:
        """No timer rings any more, and nobody is told."""
        self._listener = None
        self._arrivals.close()
        if self._timer is not None:
            self._timer.cancel()

    async def _stop(self, asks_engine: bool) -> None:
        """End what still runs, and hear the engine out: its last word says what is billed."""
        self._quiet()
        if asks_engine and self.meter.is_final:
            self._let_end()
        elif asks_engine:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.settle_seconds):
                    await asyncio.gather(*map(self._abort, range(len(self._pumps))))
                    await asyncio.gather(*map(asyncio.shield, self._pumps))
        tasks = [task for task in (*self._pumps, *([self._noting] if self._noting else [])) if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _let_end(self) -> None:
        """All was said; what is left is the end of the connection, which is kept for the next request."""
        for pump in self._pumps:
            if not pump.done():
                asyncio.get_running_loop().call_later(self._settings.settle_seconds, pump.cancel)
        self._pumps = []

    async def _abort(self, run: int) -> None:
        if not self._pumps[run].done() and not self.meter.is_done(run):
            with contextlib.suppress(EngineError):
                await self.job.client.abort(self.job.runs[run].request_id)


def _checked(event: Accepted | TokenEvent) -> Accepted | TokenEvent | EngineError:
    if isinstance(event, TokenEvent) and event.finish_reason in ("error", "abort"):
        return EngineError(500, "engine_error", "The engine could not finish this request. Try it again.")
    return event

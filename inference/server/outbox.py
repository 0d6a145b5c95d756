"""The events of one request on their way from the engine's thread to its socket.

The engine never waits: it hands over and goes on. A reader that falls too far behind ends its own request.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from inference.protocol import Failure, TokenEvent

LIMIT = 1024
"""Events a choice may be ahead of its reader."""


class Outbox:
    """`deliver` belongs to the engine's thread, everything else to the event loop."""

    def __init__(self, num_choices: int, abort: Callable[[], object], forget: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._abort = abort
        self._forget = forget
        """Called once, when the engine has said its last word on this request."""
        self._limit = LIMIT * num_choices
        self._open_choices = num_choices
        self._events: list[TokenEvent | Failure] = []
        self._news = asyncio.Event()
        self._reader_left = False
        self._started = False
        self._abort_asked = False

    def start(self, submit: Callable[[], None]) -> None:
        """Hand the request to the engine; an abort that came while it was still being checked follows at once."""
        self._started = True
        submit()
        if self._abort_asked:
            self._abort()

    def abort(self) -> None:
        """The engine ends the request within one step, and its last events still come."""
        self._abort_asked = True
        if self._started:
            self._abort()

    def deliver(self, event: TokenEvent | Failure) -> None:
        """Thread-safe; never blocks, never raises."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends, and nobody reads
            self._loop.call_soon_threadsafe(self._put, event)

    async def read(self) -> AsyncIterator[list[TokenEvent | Failure]]:
        """Whatever has come since the last time, until the last event."""
        while self._open_choices or self._events:
            await self._news.wait()
            self._news.clear()
            events, self._events = self._events, []
            if events:
                yield events

    def leave(self) -> None:
        """The reader is gone or done; a request still open is aborted."""
        self._reader_left = True
        self._events.clear()
        if self._open_choices:
            self._abort()

    def _put(self, event: TokenEvent | Failure) -> None:
        if not self._open_choices:
            return
        self._open_choices -= self._closes(event)
        if not self._open_choices:
            self._forget()
        if not self._reader_left:
            self._events.append(event)
            self._news.set()
            if len(self._events) == self._limit:
                self._abort()

    def _closes(self, event: TokenEvent | Failure) -> int:
        """How many choices end with this event."""
        if isinstance(event, Failure):
            return self._open_choices
        return 1 if event.finish_reason else 0

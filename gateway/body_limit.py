"""Bodies over the limit are refused while they arrive, whatever their length header says, or with none; and bodies
that never end, after so many seconds.

The refusal is raised where the body is read, after the key was checked. What still arrives is read and dropped for
a while after the answer: a connection closed on unread bytes is reset, and the client would never see the 413.
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import RequestTimeout, RequestTooLarge

LINGER_SECONDS = 10


class BodyLimit:
    def __init__(self, app: ASGIApp, limit: int, seconds: float) -> None:
        self._app, self._limit, self._seconds = app, limit, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, send, self._limit, Headers(scope=scope).get("content-length", ""), self._seconds)
        await self._app(scope, body.receive, body.send)
        await body.linger()


class _Body:
    """One request's body, counted."""

    def __init__(self, receive: Receive, send: Send, limit: int, declared: str, seconds: float) -> None:
        self._receive, self._send, self._limit, self._seconds = receive, send, limit, seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._seen = limit + 1 if _exceeds(declared, limit) else 0
        self._is_refused = self._has_ended = False

    async def receive(self) -> Message:
        if self._seen <= self._limit:
            message = await self._next()
            self._seen += len(message.get("body", b""))
            self._has_ended = not message.get("more_body", False)
            if self._seen <= self._limit:
                return message
        self._is_refused = True
        raise RequestTooLarge(self._limit)

    async def _next(self) -> Message:
        """What follows a whole body (the client leaves) may take as long as it likes."""
        if self._has_ended:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            raise RequestTimeout(self._seconds) from None

    async def send(self, message: Message) -> None:
        """A refusal's answer is not ended yet, so that the server keeps the connection for `linger`."""
        is_body = message["type"] == "http.response.body"
        await self._send({**message, "more_body": True} if self._is_refused and is_body else message)

    async def linger(self) -> None:
        if not self._is_refused:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._has_ended:
                    self._has_ended = not (await self._receive()).get("more_body", False)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _exceeds(declared: str, limit: int) -> bool:
    """By its header alone; a header that is no number is the server's to refuse."""
    return declared.isdecimal() and len(declared) < 20 and int(declared) > limit

"""The answer to /generate: NDJSON, a line an event, until every choice has ended or the connection is closed."""

import contextlib
from collections.abc import Callable

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inference.protocol import Accepted, Failure, TokenEvent
from inference.server.outbox import Outbox

MEDIA_TYPE = "application/x-ndjson"


def line(event: Accepted | TokenEvent | Failure) -> bytes:
    return event.model_dump_json(exclude_none=True).encode() + b"\n"


def failure_response(failure: Failure) -> Response:
    return Response(line(failure), status_code=failure.status, media_type=MEDIA_TYPE)


class EventResponse(Response):
    """Starts the request when it is sent, so that whatever ends the sending ends the request."""

    media_type = MEDIA_TYPE

    def __init__(self, accepted: Accepted, outbox: Outbox, submit: Callable[[], None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._accepted = accepted
        self._outbox = outbox
        self._submit = submit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._outbox.start(self._submit)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_closed, receive, tasks.cancel_scope)
                with contextlib.suppress(OSError):  # some servers say so that the other side is gone
                    await self._send(send)
                tasks.cancel_scope.cancel()
        finally:
            self._outbox.leave()

    async def _until_closed(self, receive: Receive, stream: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        stream.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_body(line(self._accepted), more=True))
        async for events in self._outbox.read():
            await send(_body(b"".join(map(line, events)), more=True))
        await send(_body(b"", more=False))


def _body(data: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": more}

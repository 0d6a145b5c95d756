"""Bodies over the limit are refused while they arrive, whatever their length header says, or with none."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import RequestTooLarge


class BodyLimit:
    """The refusal is raised where the body is read, after the key was checked."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        seen = int(declared) if declared.isdigit() and int(declared) > self._limit else 0

        async def limited() -> Message:
            nonlocal seen
            if seen > self._limit:
                raise RequestTooLarge(self._limit)
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise RequestTooLarge(self._limit)
            return message

        await self._app(scope, limited, send)

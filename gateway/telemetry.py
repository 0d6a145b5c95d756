"""One JSON line a request: id, route, status, tokens, durations. Never a body, key, prompt, output or traceback text.

`RequestLog` is the outermost layer: it gives each request its `x-request-id`, turns what no handler knows into a
plain 500, and logs. Deeper layers add fields with `note`.
"""

import json
import logging
import time
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import ServerError, render
from gateway.metrics.registry import Metrics
from storage.ids import uuid7

log = logging.getLogger("specgate.requests")
_NOTES = "specgate.notes"
_REQUEST_ID = "specgate.request_id"
CLIENT_LEFT = 499
"""What is logged for a client that left before it was answered; nobody is sent it."""
_QUIET = frozenset({"/livez", "/readyz"})
"""Asked every second by probes; logged only when they fail."""


def request_id(scope: Scope) -> str:
    """Ours, always: what a client calls its request never names a row."""
    return str(scope[_REQUEST_ID])


def note(scope: Scope, **fields: object) -> None:
    """More to say in this request's line."""
    scope[_NOTES].update(fields)


class RequestLog:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_REQUEST_ID], scope[_NOTES] = uuid7(), {}
        status = 0
        started = time.perf_counter()

        async def sender(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id(scope)
                note(scope, headers_seconds=round(time.perf_counter() - started, 6))
            await send(message)

        try:
            await self._app(scope, receive, sender)
        except ClientDisconnect:
            status = status or CLIENT_LEFT
        except Exception as error:  # noqa: BLE001 - the last layer: it is logged, and the client gets a plain 500
            note(scope, error=describe(error))
            if not status:
                await render(ServerError())(scope, receive, sender)
        finally:
            self._write(scope, status, time.perf_counter() - started)

    def _write(self, scope: Scope, status: int, seconds: float) -> None:
        notes: dict[str, object] = scope[_NOTES]
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.answered(scope["method"], route, status or CLIENT_LEFT, seconds)
        if scope["path"] in _QUIET and status < 400:
            return
        status = status or CLIENT_LEFT  # it was answered nothing, and nothing went wrong
        level = logging.ERROR if "error" in notes else logging.INFO
        fields = {"request_id": request_id(scope), "method": scope["method"], "route": route, "status": status}
        log.log(level, "request", extra={"fields": fields | {"seconds": round(seconds, 6)} | notes})


def describe(error: BaseException) -> dict[str, Any]:
    """What went wrong and where, without the message: messages may quote what a client sent."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    told: dict[str, Any] = {"type": type(error).__qualname__}
    told["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    if isinstance(error, BaseExceptionGroup):
        told["of"] = [describe(inner) for inner in error.exceptions]
    return told


class JsonLines(logging.Formatter):
    """A record as one line of JSON: message, level, logger, UTC time, and the fields it carries."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1])
        return json.dumps(line, default=str)


def log_to(stream: TextIO, level: int = logging.INFO) -> None:
    """Send every logger's lines to `stream`; libraries that would tell of every statement or hop stay quiet."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("aiosqlite", "asyncio", "httpcore", "httpx", "sqlalchemy"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

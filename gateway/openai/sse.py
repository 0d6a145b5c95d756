"""Objects → the bytes of a server-sent event stream, as the official clients read it.

    data: {chunk}   …   data: {usage chunk, choices []}   data: [DONE]

A comment keeps a silent stream alive. A failure after the headers is `data: {"error": …}` and a close without
`[DONE]`: clients take a bare close for success.
"""

from typing import Any

from pydantic_core import to_json

from gateway.errors import ApiError

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


def frame(body: dict[str, Any]) -> bytes:
    return b"data: " + json_bytes(body) + b"\n\n"


def error_frame(error: ApiError) -> bytes:
    return frame(error.body())


def json_bytes(body: Any) -> bytes:
    """Compact UTF-8 on one line: also for readers that split at Unicode's own line ends, which JSON lets through."""
    told = to_json(body)
    return told if told.isascii() else told.decode().translate(_LINE_ENDS).encode()

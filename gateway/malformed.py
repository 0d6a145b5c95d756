"""HTTP as uvicorn reads it, but what is no HTTP at all is refused in our envelope too."""

import asyncio
import json
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import InvalidRequest
from gateway.head_first import HeadFirst

REFUSAL = InvalidRequest("This is no valid HTTP request. Check its first line and headers.", None, "invalid_request")


class Http(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, HeadFirst(transport)))

    def send_400_response(self, msg: str) -> None:
        """An answer that began is cut: nothing more that is written would be understood."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_answer())
        self.transport.close()


def _answer() -> bytes:
    body = json.dumps(REFUSAL.body()).encode()
    head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body

"""The sending half of an ASGI connection: whether anything left yet, and bytes out, unbuffered."""

from collections.abc import Mapping

from starlette.types import Send


class Wire:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_started = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.has_started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})

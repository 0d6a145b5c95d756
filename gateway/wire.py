"""The sending half of an ASGI connection: whether anything left yet, and bytes out, unbuffered."""

import asyncio
from collections.abc import Mapping

from starlette.types import Message, Send

from gateway.promptly import Begun, promptly


class Gone(Exception):
    """The client left, or reads nothing any more; there is nobody to tell."""


class Wire:
    def __init__(self, send: Send, patience: float) -> None:
        self._send, self._patience = send, patience
        self.has_started = False
        self._begun: Begun[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether the client has yet to take what was written."""
        return self._begun is not None

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.has_started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._out({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes, is_last: bool = False) -> None:
        """Returns when the server has taken it. Raises Gone where that takes longer than `patience`."""
        await self._out({"type": "http.response.body", "body": data, "more_body": not is_last})

    def write_now(self, data: bytes) -> bool:
        """False where the server has not taken it yet; the next `write` waits for that first."""
        begun = Begun(self._send({"type": "http.response.body", "body": data, "more_body": True}))
        self._begun = begun if begun.waits else None
        return not begun.waits

    async def _out(self, message: Message) -> None:
        try:
            if self._begun is not None:
                begun, self._begun = self._begun, None
                async with asyncio.timeout(self._patience):
                    await begun.rest()
            await promptly(self._send(message), self._patience)
        except TimeoutError:
            raise Gone from None

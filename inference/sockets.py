"""The sockets under httpx, for many short answers and streams of small chunks on one event loop.

What a request is written in (head, body) leaves in one piece when the loop comes round; a reader that lags is the only
reason to stop reading, where httpcore's own way stops and starts for every chunk; whether an idle connection still
lives is known without asking the system. Half of what a chunk cost on its way from the engine went into these.

Plain TCP only.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import httpcore

MOST_UNREAD = 2**18
"""Bytes; with more, reading pauses until they are taken."""


class Sockets(httpcore.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        local = None if local_address is None else (local_address, 0)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport, stream = await loop.create_connection(Stream, host, port, local_addr=local)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return stream


class Stream(httpcore.AsyncNetworkStream, asyncio.Protocol):
    """One connection. One reader and one writer at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._unsent = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_paused = self._is_full = self._has_ended = False
        self._cause: Exception | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._unread and not self._has_ended:
            self._reader = asyncio.get_running_loop().create_future()
            await _within(timeout, self._reader, httpcore.ReadTimeout)
        if not self._unread and self._cause is not None:
            raise httpcore.ReadError(str(self._cause)) from self._cause
        taken = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_paused and len(self._unread) < MOST_UNREAD:
            self._is_paused = False
            self._open.resume_reading()
        return taken

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._has_ended:
            raise httpcore.WriteError("The connection is closed.")
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent += buffer
        if self._is_full:
            self._writer = asyncio.get_running_loop().create_future()
            await _within(timeout, self._writer, httpcore.WriteTimeout)

    async def aclose(self) -> None:
        """Nobody waits for what was not sent or not read."""
        self._open.abort()
        await asyncio.sleep(0)  # it is closed when the loop comes round

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._has_ended or bool(self._unread)
        return self._open.get_extra_info({"client_addr": "sockname", "server_addr": "peername"}.get(info, info))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) >= MOST_UNREAD and not self._is_paused:
            self._is_paused = True
            self._open.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        _wake(self._writer)

    @property
    def _open(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def _send(self) -> None:
        if self._unsent and not self._open.is_closing():
            self._open.write(bytes(self._unsent))
        self._unsent.clear()

    def _end(self, cause: Exception | None) -> None:
        self._has_ended = True
        self._cause = self._cause or cause
        _wake(self._reader)
        _wake(self._writer)


async def _within(timeout: float | None, waited: "asyncio.Future[None]", failure: type[Exception]) -> None:
    if timeout is None:
        await waited
        return
    try:
        async with asyncio.timeout(timeout):
            await waited
    except TimeoutError as error:
        raise failure(str(error)) from error


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

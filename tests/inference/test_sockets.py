"""The sockets under httpx: requests leave whole, whoever lags is waited for, and an end is an end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpcore
import httpx
import pytest

from inference.client import HttpInferenceClient
from inference.sockets import MOST_UNREAD, Sockets, Stream

pytestmark = pytest.mark.anyio
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(handle: Handler) -> AsyncIterator[Stream]:
    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", 0, limit=2**16)
    stream = await Sockets().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5)
    assert isinstance(stream, Stream)
    try:
        async with asyncio.timeout(10):
            yield stream
    finally:
        await stream.aclose()
        server.close()
        await server.wait_closed()


async def test_the_engines_client_uses_them() -> None:
    client = HttpInferenceClient("http://127.0.0.1:1", "secret")
    transport = client._transport
    assert isinstance(transport, httpx.AsyncHTTPTransport)
    pool = transport._pool
    assert isinstance(pool, httpcore.AsyncConnectionPool)
    assert isinstance(pool._network_backend, Sockets)
    await client.aclose()


async def test_what_is_written_in_parts_leaves_in_one_piece() -> None:
    pieces: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces.append(await reader.read(100))
        writer.write(b"yes")
        await writer.drain()

    async with connected(handle) as stream:
        await stream.write(b"head ")
        await stream.write(b"body")
        assert await stream.read(100) == b"yes"
    assert pieces == [b"head body"]


async def test_a_reader_that_lags_stops_the_sender_and_gets_all() -> None:
    sent = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(512):
            writer.write(b"x" * 2**16)
            await writer.drain()
            sent += 2**16

    async with connected(handle) as stream:
        await asyncio.sleep(0.2)
        assert sent < 2**25 - MOST_UNREAD
        assert len(stream._unread) < 2 * MOST_UNREAD
        total = 0
        while data := await stream.read(2**16):
            total += len(data)
        assert total == 512 * 2**16


async def test_a_writer_waits_for_who_reads_slowly() -> None:
    taken = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken.wait()
        await reader.readexactly(2**25 + 1)
        writer.write(b"all")
        await writer.drain()

    async with connected(handle) as stream:
        await stream.write(b"x" * 2**25)
        await asyncio.sleep(0.05)
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(b"x", timeout=0.05)
        taken.set()
        assert await stream.read(10) == b"all"


async def test_an_end_is_seen_without_reading() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with connected(handle) as stream:
        assert not stream.get_extra_info("is_readable")
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(10, timeout=0.02)
        await stream.write(b"x")
        while not stream.get_extra_info("is_readable"):
            await asyncio.sleep(0.005)
        assert await stream.read(10) == b""
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"y")


async def test_nobody_listening_is_a_connect_error(free_tcp_port: int) -> None:
    with pytest.raises(httpcore.ConnectError):
        await Sockets().connect_tcp("127.0.0.1", free_tcp_port, timeout=5)

"""The client over real sockets: lines however the bytes come, and an error that says what became of the request."""

import asyncio
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import pairwise

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.client import HttpInferenceClient, Lines
from inference.protocol import Accepted, EngineError, Failure, InferenceClient, TokenEvent
from inference.server.response import line
from inference.server.service import Service
from tests.inference.serving import (
    SECRET,
    ScriptedWorker,
    ask,
    client_of,
    event,
    everything,
    greedy,
    listening,
    served,
    until,
)

ACCEPTED = Accepted(prompt_tokens=3)
STEADY = settings(deadline=None, derandomize=True)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def raw_server(handle: Handler) -> AsyncIterator[HttpInferenceClient]:
    """A client of a server that writes whatever bytes the test wants."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    client = HttpInferenceClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", SECRET)
    try:
        yield client
    finally:
        await client.aclose()
        server.close()
        await server.wait_closed()


def answering(*data: bytes) -> Handler:
    """Reads the request's head, writes this, and hangs up."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(data))
        await writer.drain()
        writer.close()

    return handle


def refusal(error: pytest.ExceptionInfo[EngineError]) -> tuple[int, str]:
    return error.value.failure.status, error.value.failure.code


@STEADY
@given(st.lists(st.text(max_size=9).filter(lambda text: "\n" not in text), max_size=6), st.lists(st.integers(0, 40)))
def test_lines_survive_any_split_of_the_bytes(texts: list[str], cuts: list[int]) -> None:
    data = "".join(text + "\n" for text in texts).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    lines = Lines()
    read = [text for start, end in pairwise(edges) for text in lines.feed(data[start:end])]
    assert read == [text.encode() for text in texts]


@STEADY
@given(st.text(max_size=12), st.lists(st.integers(1, 9), max_size=60))
def test_events_survive_any_split_of_the_bytes(text: str, sizes: list[int]) -> None:
    events = [ACCEPTED, event(0, text), event(1, "\u2028\x85\r" + text, finish="stop")]
    data = b"".join(map(line, events))
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    pieces.append(data)

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def run() -> list[Accepted | TokenEvent]:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=stream()))
        return await everything(HttpInferenceClient("http://engine", SECRET, transport), ask())

    assert anyio.run(run) == events


@pytest.mark.anyio
async def test_the_client_is_the_gateways_view_of_an_engine() -> None:
    async with client_of(ScriptedWorker(event(0, "é"), event(1, finish="length"))) as http:
        client: InferenceClient = http
        heard = [e async for e in client.generate(ask())]
    assert heard == [Accepted(prompt_tokens=1), event(0, "é"), event(1, finish="length")]


@pytest.mark.anyio
async def test_nobody_listening_is_unavailable(free_tcp_port: int) -> None:
    client = HttpInferenceClient(f"http://127.0.0.1:{free_tcp_port}", SECRET)
    for call in (everything(client, ask()), client.ready(), client.load()):
        with pytest.raises(EngineError, match="cannot be reached") as error:
            await call
        assert refusal(error) == (503, "engine_unavailable")
    await client.abort("r")
    await client.aclose()


@pytest.mark.anyio
async def test_a_connection_that_is_not_taken_up_is_given_up_after_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(deaf.getsockname())
        client = HttpInferenceClient(f"http://127.0.0.1:{deaf.getsockname()[1]}", SECRET)
        start = time.monotonic()
        with pytest.raises(EngineError) as error:
            await everything(client, ask())
        assert refusal(error) == (503, "engine_unavailable")
        assert 1.5 < time.monotonic() - start < 5
        await client.aclose()
        for filler in fillers:
            filler.close()


@pytest.mark.anyio
async def test_a_stream_may_be_silent_as_long_as_it_likes() -> None:
    timeouts: list[dict[str, float | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx.Response(200, content=line(ACCEPTED) + line(event(0, finish="stop")))

    await everything(HttpInferenceClient("http://engine", SECRET, httpx.MockTransport(answer)), ask())
    assert timeouts == [{"connect": 2.0, "read": None, "write": None, "pool": None}]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "n", "expected"),
    [
        ([], 1, (503, "engine_unavailable")),
        ([HEAD], 1, (503, "engine_unavailable")),
        ([HEAD, chunk(b"")], 1, (503, "engine_unavailable")),
        ([HEAD, chunk(line(ACCEPTED))], 1, (500, "engine_lost")),
        ([HEAD, chunk(line(ACCEPTED) + line(event(0)))], 1, (500, "engine_lost")),
        ([HEAD, chunk(line(ACCEPTED) + line(event(0))), chunk(b"")], 1, (500, "engine_lost")),
        ([HEAD, chunk(line(ACCEPTED) + line(event(0, finish="stop"))), chunk(b"")], 2, (500, "engine_lost")),
        ([HEAD, chunk(line(ACCEPTED) + line(event(0, finish="stop"))[:-9]), chunk(b"")], 1, (500, "engine_lost")),
        ([HEAD, chunk(line(ACCEPTED) + b'{"type": "news"}\n')], 1, (500, "engine_protocol")),
        ([HEAD, chunk(line(ACCEPTED) + line(Failure(status=500, code="c", message="m")))], 1, (500, "c")),
        ([b"HTTP/1.1 502 Bad\r\ncontent-length: 3\r\n\r\nwho"], 1, (503, "engine_unavailable")),
    ],
)
async def test_a_stream_without_its_end_is_an_error(said: list[bytes], n: int, expected: tuple[int, str]) -> None:
    async with raw_server(answering(*said)) as client:
        with pytest.raises(EngineError) as error:
            await everything(client, ask(sampling=greedy(5, n)))
    assert refusal(error) == expected


@pytest.mark.anyio
async def test_what_came_before_the_loss_was_delivered() -> None:
    async with raw_server(answering(HEAD, chunk(line(ACCEPTED) + line(event(0, "a"))))) as client:
        events = client.generate(ask())
        assert [await anext(events), await anext(events)] == [ACCEPTED, event(0, "a")]
        with pytest.raises(EngineError):
            await anext(events)


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["aclose", "cancel"])
async def test_an_early_close_closes_the_connection_at_once(how: str) -> None:
    closed = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(line(ACCEPTED)))
        with suppress(ConnectionError):
            while await reader.read(4096):
                pass
        closed.set()
        writer.close()

    async with raw_server(handle) as client:
        read = asyncio.Event()

        async def consume() -> None:
            async with aclosing(client.generate(ask())) as events:
                async for _ in events:
                    read.set()
                    if how == "aclose":
                        return

        task = asyncio.create_task(consume())
        await asyncio.wait_for(read.wait(), 5)
        if how == "cancel":
            task.cancel()
        await asyncio.wait_for(closed.wait(), 0.5)
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.anyio
async def test_every_line_arrives_at_once() -> None:
    worker = ScriptedWorker()
    async with client_of(worker) as client:
        events = client.generate(ask())
        await anext(events)
        delays = []
        for i in range(40):
            start = time.perf_counter()
            worker.say("r", event(i))
            await anext(events)
            delays.append(time.perf_counter() - start)
        await events.aclose()
    assert statistics.quantiles(delays, n=10)[-1] < 0.05


@pytest.mark.anyio
async def test_the_wrong_secret_and_a_loading_worker_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    service = Service(waiting_for="the weights")
    async with listening(service) as url:
        wrong, client = HttpInferenceClient(url, "wrong"), HttpInferenceClient(url, SECRET)
        for call in (wrong.ready, wrong.load, lambda: everything(wrong, ask()), lambda: wrong.abort("r")):
            with pytest.raises(EngineError) as error:
                await call()
            assert refusal(error) == (401, "wrong_secret")
        with pytest.raises(EngineError, match="waits for the weights") as error:
            await client.ready()
        assert refusal(error) == (503, "engine_starting")
        worker = ScriptedWorker()
        service.engine = served(worker)
        assert (await client.ready()).model == "tiny"
        worker.failure = "it broke"
        with pytest.raises(EngineError, match="it broke") as error:
            await client.ready()
        assert refusal(error) == (500, "engine_failed")
        await wrong.aclose()
        await client.aclose()


@pytest.mark.anyio
async def test_something_else_on_the_port_is_not_taken_for_an_engine() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"hello": "world"}))
    client = HttpInferenceClient("http://engine", SECRET, transport)
    for call in (client.ready, client.load):
        with pytest.raises(EngineError, match="not in the protocol"):
            await call()


@pytest.mark.anyio
async def test_text_that_no_wire_can_carry_is_refused_before_it_is_sent() -> None:
    worker = ScriptedWorker(event(0, finish="stop"))
    async with client_of(worker) as client:
        with pytest.raises(EngineError) as error:
            await everything(client, ask(prompt="\ud83d"))
    assert refusal(error) == (400, "invalid_unicode")
    assert worker.submitted == []


@pytest.mark.anyio
async def test_a_finished_stream_leaves_its_connection_for_the_next() -> None:
    """Else a busy gateway would run out of ports."""
    ports: set[object] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                ports.add(writer.get_extra_info("peername"))
                writer.write(HEAD + chunk(line(ACCEPTED) + line(event(0, finish="stop"))) + chunk(b""))
        writer.close()

    async with raw_server(handle) as client:
        for _ in range(3):
            assert len(await everything(client, ask())) == 2
        await until(lambda: len(ports) == 1)

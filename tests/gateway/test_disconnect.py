"""The client leaves at every possible moment, streaming or not: the engine stops, and what it made is billed once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, Gateway, chat_body, running

pytestmark = pytest.mark.anyio
MANY = tuple(f" {i}" for i in range(50))


@asynccontextmanager
async def asking(gateway: Gateway, **members: Any) -> AsyncIterator[asyncio.StreamReader]:
    """A request on a bare socket, reset at the end of the block."""
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = json.dumps(chat_body(**members)).encode()
    head = [f"POST {CHAT} HTTP/1.1", "host: x", f"authorization: Bearer {gateway.key}", f"content-length: {len(body)}"]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def read_until(reader: asyncio.StreamReader, needle: bytes) -> None:
    async with asyncio.timeout(5):
        await reader.readuntil(needle)


async def engine_asked(gateway: Gateway) -> None:
    async with asyncio.timeout(5):
        while not gateway.engine.requests:
            await asyncio.sleep(0.005)


async def aborted_within_a_second(gateway: Gateway, since: float) -> None:
    while not gateway.engine.closed:
        assert time.monotonic() - since < 1.0, "the engine still ran a second after the client had left"
        await asyncio.sleep(0.005)
    assert gateway.engine.aborted == [gateway.engine.requests[0].request_id]


@pytest.mark.parametrize("streams", [False, True])
async def test_before_the_engine_accepted(tmp_path: Path, streams: bool) -> None:
    async with running(tmp_path, FakeEngine(Script(before_accept=30))) as gateway:
        async with asking(gateway, stream=streams):
            await engine_asked(gateway)
        left = time.monotonic()
        await aborted_within_a_second(gateway, left)
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("disconnected", 0, 0)


@pytest.mark.parametrize("streams", [False, True])
async def test_during_prefill(tmp_path: Path, streams: bool) -> None:
    async with running(tmp_path, FakeEngine(Script(before_first=30))) as gateway:
        async with asking(gateway, stream=streams) as reader:
            await (read_until(reader, b"\r\n\r\n") if streams else engine_asked(gateway))
        left = time.monotonic()
        await aborted_within_a_second(gateway, left)
        assert (await gateway.settled()).outcome == "disconnected"


@pytest.mark.parametrize("seen", [1, 2, 17, 49])
async def test_after_some_chunks(tmp_path: Path, seen: int) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, hold_at=seen))) as gateway:
        async with asking(gateway, stream=True) as reader:
            await read_until(reader, f'"content":" {seen - 1}"'.encode())
        left = time.monotonic()
        await aborted_within_a_second(gateway, left)
        row = await gateway.settled()
        assert (row.outcome, row.final) == ("disconnected", True)
        assert row.generated_tokens == row.delivered_tokens == row.completion_tokens == seen
        assert row.generated_tokens - 1 == row.steps + row.accepted_delivered
        assert (row.prompt_tokens, row.cached_tokens) == (7, 3)


async def test_after_the_last_chunk_but_before_done(tmp_path: Path) -> None:
    """All was generated and the settlement says so, whichever of the two came first."""
    async with running(tmp_path, FakeEngine(Script(words=MANY))) as gateway:
        async with asking(gateway, stream=True) as reader:
            await read_until(reader, b'"finish_reason":"stop"')
        row = await gateway.settled()
        assert row.outcome in ("completed", "disconnected")
        assert row.generated_tokens == row.completion_tokens == 50
        assert row.final
        assert gateway.engine.aborted == []


async def test_after_done(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        async with asking(gateway, stream=True) as reader:
            await read_until(reader, b"data: [DONE]\n\n")
            assert len(await gateway.rows("settle")) == 1, "settled before [DONE] leaves"
        row = await gateway.settled()
        assert (row.outcome, row.completion_tokens) == ("completed", 4)
        assert gateway.engine.aborted == []


async def test_while_a_whole_answer_is_made(tmp_path: Path) -> None:
    """Nothing was delivered, yet the engine worked: billed as generated."""
    async with running(tmp_path, FakeEngine(Script(words=MANY, step=4, hold_at=21))) as gateway:
        async with asking(gateway):
            async with asyncio.timeout(5):
                while gateway.engine.sent < 21:
                    await asyncio.sleep(0.005)
        left = time.monotonic()
        await aborted_within_a_second(gateway, left)
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.delivered_tokens) == ("disconnected", 21, 0)
        assert row.completion_tokens == 21
        assert row.generated_tokens - 1 == row.steps + row.accepted_delivered == 20


async def test_every_choice_is_drained(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, hold_at=10))) as gateway:
        async with asking(gateway, stream=True, n=3) as reader:
            for _ in range(3):
                await read_until(reader, b'"content":" 9"')
        row = await gateway.settled()
        assert (row.generated_tokens, row.completion_tokens, row.choices_with_output) == (30, 30, 3)
        assert row.final
        assert row.generated_tokens - 3 == row.steps + row.accepted_delivered


async def test_an_engine_that_ignores_the_abort_is_waited_for_only_so_long(tmp_path: Path) -> None:
    script = Script(words=MANY, hold_at=5, deaf=True)
    async with running(tmp_path, FakeEngine(script), settle_seconds=0.2) as gateway:
        async with asking(gateway, stream=True) as reader:
            await read_until(reader, b'"content":" 4"')
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("disconnected", 5, 5)
        assert not row.final
        assert len(gateway.engine.closed) == 1, "its stream was closed, which aborts it too"


async def test_a_client_that_reads_nothing_is_taken_for_gone(tmp_path: Path) -> None:
    """Its connection stays open, and so would the ledger's entry."""
    script = Script(words=tuple("x" * 2**20 for _ in range(40)))
    async with running(tmp_path, FakeEngine(script), stall_seconds=0.3) as gateway:
        async with asking(gateway, stream=True):
            row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("disconnected", 40, 40)
        assert row.delivered_tokens < 40


async def test_many_clients_leave_at_random_moments(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, gap=0.001))) as gateway:

        async def leave(after: float) -> None:
            async with asking(gateway, stream=after > 0.03):
                await asyncio.sleep(after)

        async with asyncio.timeout(30):
            await asyncio.gather(*(leave(i * 0.002) for i in range(40)))
            while len(await gateway.rows("settle")) < len(await gateway.rows("open")):
                await asyncio.sleep(0.02)
        rows = await gateway.rows("settle")
        assert sum(row.completion_tokens for row in rows) == gateway.engine.sent
        assert {row.outcome for row in rows} <= {"disconnected", "completed"}

"""What is no HTTP, and bodies that never end: an answer in the envelope, a plain line in the log."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import CHAT, Gateway, chat_body, running

pytestmark = pytest.mark.anyio


async def exchange(gateway: Gateway, sent: bytes) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of what comes back until the connection is closed."""
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(sent)
    async with asyncio.timeout(10):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body)


def head_of(gateway: Gateway, length: int) -> bytes:
    lines = [f"POST {CHAT} HTTP/1.1", "host: x", f"authorization: Bearer {gateway.key}", f"content-length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"FOO\r\n\r\n",
        b"FOO /v1/models HTTP/9.9\r\nhost: x\r\n\r\n",
        b"POST /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v1/models HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nhello",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_no_http_is_refused_in_the_envelope(tmp_path: Path, sent: bytes) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        status, headers, told = await exchange(gateway, sent)
        assert (status, headers["content-type"], headers["connection"]) == (400, "application/json", "close")
        assert list(told) == ["error"]
        assert sorted(told["error"]) == ["code", "message", "param", "type"]
        assert (told["error"]["type"], told["error"]["code"]) == ("invalid_request_error", "invalid_request")
        assert (await gateway.chat()).status_code == 200


async def test_a_body_that_does_not_arrive_is_a_408(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, FakeEngine(), body_seconds=0.2) as gateway:
        status, headers, told = await exchange(gateway, head_of(gateway, 100) + b'{"model"')
        assert (status, told["error"]["code"], headers["connection"]) == (408, "request_timeout", "close")
        assert "SPECGATE_BODY_SECONDS" in told["error"]["message"]
        assert "x-should-retry" not in headers, "clients try a 408 again"
        assert await gateway.rows("open") == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_answer_may_take_longer_than_a_body_may(tmp_path: Path) -> None:
    from tests.gateway.fake_engine import Script

    script = Script(gap=0.05)
    async with running(tmp_path, FakeEngine(script), body_seconds=0.1) as gateway:
        body = json.dumps(chat_body(stream=True)).encode()
        response = await gateway.http.post(CHAT, content=body)
        assert response.elapsed.total_seconds() > 0.1
        assert response.text.endswith("data: [DONE]\n\n")
        assert (await gateway.settled()).outcome == "completed"


async def test_a_client_that_leaves_within_its_body_is_logged_as_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "specgate.requests"):
        async with running(tmp_path, FakeEngine()) as gateway:
            address = urlsplit(gateway.url)
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(head_of(gateway, 100) + b'{"model"')
            await asyncio.sleep(0.1)
            writer.transport.abort()
            async with asyncio.timeout(5):
                while not caplog.records:
                    await asyncio.sleep(0.01)
            [record] = caplog.records
    fields: Any = record.__dict__["fields"]
    assert (record.levelname, fields["status"]) == ("INFO", 499)
    assert "error" not in fields

"""An answer's head and its body are one write; a head alone leaves all the same."""

import asyncio
from typing import Any, cast

import pytest

from gateway.head_first import HeadFirst

pytestmark = pytest.mark.anyio
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.written


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def head_first(transport: Transport) -> HeadFirst:
    return HeadFirst(cast(Any, transport))


async def test_a_head_leaves_with_what_follows(transport: Transport, head_first: HeadFirst) -> None:
    for data in (HEAD, b"body", b"more"):
        head_first.write(data)
    assert transport.written == [HEAD + b"body", b"more"]
    await asyncio.sleep(0)
    assert transport.written == [HEAD + b"body", b"more"]


async def test_a_head_that_nothing_follows_leaves_soon(transport: Transport, head_first: HeadFirst) -> None:
    head_first.write(HEAD)
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [HEAD]


async def test_a_connection_that_is_closed_has_had_its_head(transport: Transport, head_first: HeadFirst) -> None:
    head_first.write(HEAD)
    head_first.close()
    assert transport.written == [HEAD, b"closed"]
    assert head_first.is_closing()

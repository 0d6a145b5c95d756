"""A client so thin that what is measured is the server: one connection, requests as bytes, answers counted.

It reads what the targets send: `content-length` or chunked bodies over HTTP/1.1 with keep-alive.
"""

import asyncio
import json
import re
import time
from typing import Any

STAMP = re.compile(rb'"content":"(\d{10,})"')


def request(path: str, key: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


class Refused(Exception):
    """No 200; the connection is good for another request."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**22))

    @property
    def is_open(self) -> bool:
        """False once the server has closed it, as it does with one that nobody used for a while."""
        return not self._reader.at_eof()

    async def ask(self, raw: bytes) -> float:
        """Seconds until the answer is whole. Raises Refused where it is no 200."""
        began = time.perf_counter()
        self._writer.write(raw)
        head = await self._head()
        if b"content-length" in head:
            await self._reader.readexactly(int(head[b"content-length"]))
        else:
            while await self._chunk():
                pass
        return time.perf_counter() - began

    async def stream(self, raw: bytes) -> list[float]:
        """Seconds that each chunk was on its way, by the moment of sending in its text."""
        self._writer.write(raw)
        await self._head()
        delays: list[float] = []
        while chunk := await self._chunk():
            now = time.monotonic_ns()
            delays += [(now - int(stamp)) / 1e9 for stamp in STAMP.findall(chunk)]
        return delays

    async def begin(self, raw: bytes) -> None:
        """Returns with a stream's first chunk."""
        self._writer.write(raw)
        await self._head()
        await self._chunk()

    def close(self) -> None:
        self._writer.close()

    async def _head(self) -> dict[bytes, bytes]:
        raw = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = raw[:-4].split(b"\r\n")
        head = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if b" 200 " not in status:
            body = await self._reader.readexactly(int(head.get(b"content-length", b"0")))
            raise Refused(f"{status.decode()}: {body.decode(errors='replace')}")
        return head

    async def _chunk(self) -> bytes:
        """Empty at the end of the body."""
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

"""A webhook's receiver on a real socket, that answers as a test says: takes, refuses, drops, hangs."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Delivery:
    headers: dict[str, str]
    body: bytes

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def ids(self) -> list[str]:
        return [entry["id"] for entry in self.entries]


@dataclass
class Receiver:
    url: str = ""
    answers: list[int | None] = field(default_factory=list)
    """Status of each next answer; None: never any; 0: the connection is cut. When they are used up, 200."""
    deliveries: list[Delivery] = field(default_factory=list)
    on_delivery: Callable[[], Awaitable[None]] | None = None

    async def has(self, count: int) -> list[Delivery]:
        """As soon as there are so many."""
        async with asyncio.timeout(20):
            while len(self.deliveries) < count:
                await asyncio.sleep(0.01)
        return self.deliveries

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head)}
        self.deliveries.append(Delivery(headers, await reader.readexactly(int(headers["content-length"]))))
        if self.on_delivery is not None:
            await self.on_delivery()
        status = self.answers.pop(0) if self.answers else 200
        if status is None:
            await asyncio.sleep(30)
        if status:
            writer.write(f"HTTP/1.1 {status} x\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
        return bool(status)


@asynccontextmanager
async def receiving(*answers: int | None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers=list(answers))
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(receiver.serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    receiver.url = f"http://{host}:{port}/take?token=hidden"
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

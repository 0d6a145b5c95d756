"""Whether memory stays as it is: requests of every kind, in the same order each time, and the gateway's memory between.

Of twenty: fifteen answers in one piece, two streams, one stream whose client leaves after its first chunk, one refused
request (in turn a wrong key, an unknown model, a bad body) and one whose engine fails.
"""

import asyncio
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.benchmarks.targets import CHAT, Target, body
from tests.benchmarks.wire_client import Connection, Refused, request

CONNECTIONS = 8
SAMPLES = 20
CHUNKS = 5
FAILS = -1
"""As a seed: the fake engine accepts the request and then fails."""


@dataclass(frozen=True)
class Memory:
    requests: int
    rss: list[int]
    """Bytes after each twentieth."""
    refused: int = 0
    """With a 503, where the machine was too busy for the ledger to answer in time."""

    @property
    def steady(self) -> list[int]:
        """Without the first fifth, which fills pools and caches."""
        return self.rss[len(self.rss) // 5 :]

    @property
    def slope(self) -> float:
        """Bytes a request, fitted."""
        every = self.requests / len(self.rss)
        return statistics.linear_regression([every * i for i in range(len(self.steady))], self.steady).slope

    @property
    def growth(self) -> float:
        """Of the fitted line, over the steady part: 1 is flat."""
        return 1 + self.slope * self.requests * 0.8 / self.steady[0]


async def soak(target: Target, requests: int, on_sample: Callable[[], None] = lambda: None) -> Memory:
    rss: list[int] = []
    refused = 0
    each = requests // SAMPLES // CONNECTIONS
    for _ in range(SAMPLES):
        refused += sum(await asyncio.gather(*(_ask(target, each) for _ in range(CONNECTIONS))))
        rss.append(target.rss)
        on_sample()
    return Memory(each * SAMPLES * CONNECTIONS, rss, refused)


async def _ask(target: Target, count: int) -> int:
    """How many were refused that should not be."""
    connection = await Connection.open(target.port)
    refused, bad = 0, _bad(target)
    for number in range(count):
        try:
            await _ask_one(target, connection, number, bad[number // 20 % len(bad)])
        except Refused:
            refused += 1
    connection.close()
    return refused


async def _ask_one(target: Target, connection: Connection, number: int, bad: bytes) -> None:
    match number % 20:
        case 3 | 13:
            assert len(await connection.stream(body(target, CHUNKS))) == CHUNKS
        case 7:
            await _leave(target)
        case 11:
            await _be_refused(connection, bad)
        case 17:
            await _be_refused(connection, body(target, FAILS, stream=False))
        case _:
            await connection.ask(body(target))


async def _leave(target: Target) -> None:
    connection = await Connection.open(target.port)
    try:
        await connection.begin(body(target, 1000))
    finally:
        connection.close()


async def _be_refused(connection: Connection, raw: bytes) -> None:
    try:
        await connection.ask(raw)
    except Refused:
        return
    raise AssertionError("it was answered")


def _bad(target: Target) -> list[bytes]:
    asked: dict[str, Any] = json.loads(body(target).partition(b"\r\n\r\n")[2])
    wrong = body(replace(target, key="sk-wrong"))
    return [wrong, *(request(CHAT, target.key, asked | bad) for bad in ({"model": "none"}, {"temperature": "hot"}))]

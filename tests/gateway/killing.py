"""Clients that write down what they saw, and the checker that joins their log with the ledger and the engine's."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy import Row, select

from storage import Database
from storage.ledger import Ledger
from storage.models import ledger_entries, of_kind
from tests.gateway.forked import Forked
from tests.gateway.running import CHAT, chat_body, client

MOST_BEHIND = 64
"""Tokens, or those of a second: how far a killed gateway's bill may lag behind what its client saw."""


@dataclass
class Seen:
    """A request that got a byte."""

    request_id: str
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """(when, tokens)."""
    usage: dict[str, Any] | None = None
    ended: float = 0.0

    def tokens(self, until: float = float("inf")) -> int:
        return sum(tokens for when, tokens in self.arrivals if when <= until)


class Crowd:
    """`size` clients of one gateway at a time, asking again and again."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._draw = size, random.Random(seed)
        self.log: list[Seen] = []
        self._num_tokens = 0

    async def ask(self, gateway: Forked, tokens: int) -> None:
        """Until they have seen so many; then it is killed, while they still ask."""
        until = self._num_tokens + tokens
        async with client(gateway.url, gateway.key) as http:
            asking = [asyncio.create_task(self._ask_on(http)) for _ in range(self._size)]
            async with asyncio.timeout(30):
                while self._num_tokens < until:
                    await asyncio.sleep(0.001)
            await gateway.kill()
            for task in asking:
                task.cancel()
            answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {asyncio.CancelledError, type(None)}, answers

    async def _ask_on(self, http: httpx.AsyncClient) -> None:
        with suppress(httpx.TransportError):
            while True:
                await self._ask(http, self._draw.random() < 0.8, self._draw.randint(1, 120))

    async def _ask(self, http: httpx.AsyncClient, streams: bool, size: int) -> None:
        options = {"stream_options": {"include_usage": True}} if streams else {}
        body = chat_body(stream=streams, seed=size, **options)
        async with http.stream("POST", CHAT, json=body) as response:
            assert response.status_code == 200, await response.aread()
            seen = Seen(response.headers["x-request-id"])
            self.log.append(seen)
            try:
                async for line in response.aiter_lines():
                    self._num_tokens += _read(seen, line)
            finally:
                seen.ended = time.monotonic()


def _read(seen: Seen, line: str) -> int:
    """Returns how many tokens it held."""
    line = line.removeprefix("data: ")
    if not line.startswith("{"):
        return 0
    told = json.loads(line)
    assert "error" not in told, told
    seen.usage = told.get("usage") or seen.usage
    texts = [(choice.get("delta") or choice.get("message") or {}).get("content") for choice in told["choices"]]
    tokens = sum(len((text or "").split()) for text in texts)
    seen.arrivals.append((time.monotonic(), tokens))
    return tokens


async def check(db: Database, log: list[Seen], made: Mapping[str, int]) -> Counter[str]:
    """Every promise of the ledger to every client; returns how many ended in which way."""
    rows = await _settled(db)
    assert [request_id for request_id, settled in rows.items() if len(settled) != 1] == []
    for seen in log:
        (row,) = rows[seen.request_id]
        _check(seen, row, made[seen.request_id])
    return Counter(str(rows[seen.request_id][0].outcome) for seen in log)


def _check(seen: Seen, row: Row[Any], made: int) -> None:
    assert row.visible_tokens <= row.generated_tokens <= made
    if seen.usage is not None:
        assert row.outcome == "completed"
        assert seen.usage["completion_tokens"] == row.completion_tokens == made
    elif row.outcome == "interrupted":
        is_near = row.completion_tokens >= seen.tokens() - MOST_BEHIND
        assert is_near or row.completion_tokens >= seen.tokens(until=seen.ended - 1), (seen, row)
    else:
        assert seen.tokens() <= row.completion_tokens <= made


async def _settled(db: Database) -> dict[str, list[Row[Any]]]:
    """By request that was opened."""
    async with db.view() as session:
        assert await Ledger(session).verify() == []
        opened = await session.scalars(select(ledger_entries.c.request_id).where(of_kind(ledger_entries, "open")))
        settled: dict[str, list[Row[Any]]] = {request_id: [] for request_id in opened}
        for row in await session.execute(select(ledger_entries).where(of_kind(ledger_entries, "settle"))):
            settled[row.request_id].append(row)
    return settled


async def all_settled(db: Database, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await _unsettled(db):
            await asyncio.sleep(0.1)


async def _unsettled(db: Database) -> int:
    async with db.view() as session:
        return len(await Ledger(session).unsettled())

"""A write that fails, at any flush, in any way the driver knows, loses nothing: what was served is what is billed."""

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import event, exc

from storage import Database
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import Gateway, frames, running

pytestmark = pytest.mark.anyio
TOGETHER = 8
WORDS = tuple(f" {number}" for number in range(12))


def lite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


ERRORS: dict[str, tuple[type[exc.DBAPIError], Exception]] = {
    "unique violation": (exc.IntegrityError, sqlite3.IntegrityError("injected")),
    "locked": (exc.OperationalError, lite(sqlite3.SQLITE_BUSY)),
    "deadlock": (exc.OperationalError, psycopg.errors.DeadlockDetected("injected")),
    "disconnect": (exc.OperationalError, psycopg.errors.AdminShutdown("injected")),
    "broken interface": (exc.InterfaceError, psycopg.InterfaceError("injected")),
    "disk full": (exc.OperationalError, lite(sqlite3.SQLITE_FULL)),
    "data error (NUL)": (exc.DataError, psycopg.DataError("injected")),
    "programming error": (exc.ProgrammingError, psycopg.ProgrammingError("injected")),
}


class Faults:
    """Raises at the n-th flush from when it was armed, where a row is written or where it is committed."""

    def __init__(self) -> None:
        self._left, self._error, self._at_commit = -1, Exception(), False
        self.num_raised = 0

    def arm(self, name: str, flush: int, at_commit: bool) -> None:
        kind, original = ERRORS[name]
        self._left, self._at_commit = flush, at_commit
        self._error = kind("INSERT", {}, original)

    def on_statement(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INTO ledger_entries" in statement and not self._at_commit:
            self._count()

    def on_commit(self, _: Any) -> None:
        if self._at_commit:
            self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.num_raised += 1
            raise self._error


@contextmanager
def faults_in(db: Database) -> Iterator[Faults]:
    faults, engine = Faults(), db._writer.sync_engine
    event.listen(engine, "before_cursor_execute", faults.on_statement)
    event.listen(engine, "commit", faults.on_commit)
    try:
        yield faults
    finally:
        event.remove(engine, "before_cursor_execute", faults.on_statement)
        event.remove(engine, "commit", faults.on_commit)


def shown(answer: httpx.Response, streams: bool) -> int | None:
    """Completion tokens that a client saw; None where it was refused before anything ran."""
    if answer.status_code != 200:
        assert answer.status_code in (500, 503), answer.text
        return None
    told = frames(answer.text) if streams else [answer.json(), "[DONE]"]
    assert told[-1] == "[DONE]", told[-1]
    (usage,) = [frame["usage"] for frame in told[:-1] if frame.get("usage")]
    return int(usage["completion_tokens"])


async def ask(gateway: Gateway, streams: bool) -> int | None:
    options = {"stream_options": {"include_usage": True}} if streams else {}
    return shown(await gateway.chat(stream=streams, **options), streams)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_was_served_is_billed(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    url = str(request.getfixturevalue("postgres_url")) if kind == "postgres" else None
    draw, engine = random.Random(4), FakeEngine(Script(words=WORDS))
    served: list[int] = []
    async with running(tmp_path, engine, database_url=url, durability="power") as gateway:
        with faults_in(gateway.parts.db) as faults:
            for name in ERRORS:
                for flush in (1, 2, 3, draw.randint(4, 6)):
                    faults.arm(name, flush, at_commit=draw.random() < 0.3)
                    streams = [draw.random() < 0.5 for _ in range(TOGETHER)]
                    answers = await asyncio.gather(*(ask(gateway, one) for one in streams))
                    served += [tokens for tokens in answers if tokens is not None]
        await settled(gateway)
        rows = [row for row in await gateway.rows("settle") if row.outcome == "completed"]
        assert faults.num_raised > 16
        assert len(rows) == len(served) == len(engine.requests)
        assert sum(row.completion_tokens for row in rows) == sum(served) == engine.sent
        assert len(served) > 32 * TOGETHER * 0.7


async def settled(gateway: Gateway) -> None:
    async with asyncio.timeout(20):
        while len(await gateway.rows("settle")) < len(await gateway.rows("open")):
            await asyncio.sleep(0.05)

"""The gateway's task: what is due is rolled up while it runs, and what fails is tried again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.rollup_job import rolling_up
from storage import Database, StorageAway
from storage.rollups.roller import Roller
from storage.usage import Usage
from tests.storage.settled import settled_row, write

pytestmark = pytest.mark.anyio
START = datetime(2026, 3, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    yield database
    await database.close()


async def _through(db: Database) -> datetime | None:
    async with db.view() as session:
        return await Usage(session).rolled_up_through()


async def _rolled_up(db: Database) -> datetime:
    async with asyncio.timeout(20):
        while (through := await _through(db)) is None or through < datetime.now(UTC) - 2 * HOUR:
            await asyncio.sleep(0.01)
    return through


async def test_what_is_due_is_rolled_up_while_the_gateway_runs(db: Database) -> None:
    await write(db, [settled_row("a", START)])
    async with rolling_up(db, "g1", pause=0.01):
        assert (await _rolled_up(db)).minute == 0


async def test_what_fails_is_told_and_tried_again(
    db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, failures = Roller.run, [StorageAway("gone"), ZeroDivisionError("secret")]

    async def failing(self: Roller) -> int:
        if failures:
            raise failures.pop(0)
        return await run(self)

    monkeypatch.setattr(Roller, "run", failing)
    with caplog.at_level(logging.WARNING, "specgate.rollups"):
        async with rolling_up(db, "g1", pause=0.01):
            await _rolled_up(db)
    told = [record.fields["error"] for record in caplog.records]  # type: ignore[attr-defined]
    assert told[0] == "StorageAway"
    assert told[1]["type"] == "ZeroDivisionError"
    assert "secret" not in str(told)

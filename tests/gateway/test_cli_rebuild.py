"""`specgate usage rebuild`: the same sums again, and a gateway at work is not disturbed."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from gateway.cli import app
from storage import Database
from storage.models import rollup_state, usage_days, usage_hours
from tests.storage.settled import random_rows, write

START = datetime(2026, 3, 1, 5, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SPECGATE_HOME", str(tmp_path))
    return f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}"


async def _fill(url: str) -> None:
    db = await Database.open(url)
    await write(db, random_rows(1, 50, START, timedelta(days=2)))
    await db.close()


async def _sums(url: str) -> list[object]:
    db = await Database.open(url)
    async with db.view() as session:
        sums = [list(await session.execute(select(table))) for table in (usage_hours, usage_days)]
    await db.close()
    return [*sums]


async def _take(url: str) -> None:
    db = await Database.open(url)
    async with db.unit() as session:
        await session.execute(rollup_state.update().values(owner="g1", lease_until=datetime.now(UTC) + timedelta(1)))
    await db.close()


@pytest.mark.long
def test_the_sums_are_made_anew_and_alike(url: str) -> None:
    asyncio.run(_fill(url))
    first = CliRunner().invoke(app, ["usage", "rebuild"])
    assert (first.exit_code, first.stdout.splitlines()[0]) == (0, "The sums of usage are those of the ledger.")
    sums = asyncio.run(_sums(url))
    assert CliRunner().invoke(app, ["usage", "rebuild"]).exit_code == 0
    assert asyncio.run(_sums(url)) == sums != [[], []]
    asyncio.run(_take(url))
    busy = CliRunner().invoke(app, ["usage", "rebuild"])
    assert busy.exit_code == 1
    assert "a gateway is rolling up right now" in busy.output

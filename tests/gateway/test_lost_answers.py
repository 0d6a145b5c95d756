"""The database commits, and its answer is lost: nothing is written twice, and nothing stays open."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, Table, select

from gateway.books import Books
from gateway.errors import StorageUnavailable
from gateway.home import HomeRefused
from gateway.spool import open_spool
from storage import Database
from storage.errors import StorageAway
from storage.models import ledger_entries, of_kind
from storage.spool import Spool
from storage.values import Settlement
from tests.gateway.running import settings_for
from tests.ledger_proof import prove
from tests.storage.entries import ENDED, opening

pytestmark = pytest.mark.anyio


class Forgetful(Database):
    """Commits, and then fails as often as it is told to."""

    num_lost = 0

    async def append(self, table: Table, values: Mapping[str, Any]) -> bool:
        is_new = await super().append(table, values)
        if self.num_lost:
            self.num_lost -= 1
            raise StorageAway("the connection was lost")
        return is_new


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Forgetful]:
    found = await Forgetful.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}", durability="power")
    assert isinstance(found, Forgetful)
    yield found
    await prove(found, is_over=True)
    await found.close()


@pytest.fixture
async def books(db: Forgetful, tmp_path: Path) -> AsyncIterator[Books]:
    found = Books(db, "home:1", Spool(tmp_path / "spool" / "one", 65536, syncs=True), patience=2, retry=0.05)
    yield found
    await found.close(2)


async def settled(db: Database) -> list[Row[Any]]:
    async with asyncio.timeout(5):
        while True:
            async with db.view() as session:
                rows = await session.execute(select(ledger_entries).where(of_kind(ledger_entries, "settle")))
                if found := list(rows):
                    return found
            await asyncio.sleep(0.02)


async def test_of_an_open_which_is_refused_and_settled_as_nothing(books: Books, db: Forgetful) -> None:
    db.num_lost = 1
    with pytest.raises(StorageUnavailable):
        await books.open(opening("r1"))
    (row,) = await settled(db)
    assert (row.outcome, row.completion_tokens) == ("error", 0)


async def test_of_a_settlement_which_is_tried_again_and_written_once(books: Books, db: Forgetful) -> None:
    await books.open(opening("r1"))
    db.num_lost = 3
    await books.settle(opening("r1"), Settlement("r1", "completed", ENDED))
    assert books.num_spooled == 1
    async with asyncio.timeout(5):
        while books.num_spooled:
            await asyncio.sleep(0.02)
    (row,) = await settled(db)
    assert (row.outcome, row.completion_tokens) == ("completed", 20)


def test_a_home_where_nothing_can_be_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(HomeRefused, match=r"settlements.jsonl cannot be written to.*SPECGATE_HOME"):
        open_spool(settings_for(tmp_path), "power")

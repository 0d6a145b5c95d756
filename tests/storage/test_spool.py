"""What was put into the spool is there at the next start, whatever ended the one before; its size is never exceeded."""

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage import Database
from storage.ledger import settle_row, write_row
from storage.spool import Spool
from storage.values import Settlement
from tests.storage.entries import ENDED, open_requests, opening, problems

pytestmark = pytest.mark.anyio
SIZE = 16384


def row_of(request_id: str) -> dict[str, Any]:
    return dict(settle_row(opening(request_id), Settlement(request_id, "completed", ENDED)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "settlements.jsonl"


def opened(path: Path, size: int = SIZE, syncs: bool = False) -> Spool:
    return Spool(path, size, syncs)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def cut_off(path: Path, cut: int) -> None:
    path.write_bytes(content_of(path)[:cut] + bytes(SIZE - cut))


@pytest.mark.parametrize("syncs", [False, True])
async def test_a_row_comes_back_with_every_value_and_a_new_time(path: Path, syncs: bool) -> None:
    spool = opened(path, syncs=syncs)
    row = row_of("r1")
    assert await spool.put(row)
    (again,) = opened(path).stamped()  # the first was never closed: killed
    assert again.keys() == row.keys()
    assert row["at"] < again["at"] <= datetime.now(UTC)
    assert json.dumps({**again, "at": 0}, sort_keys=True) == json.dumps({**row, "at": 0}, sort_keys=True)
    spool.close()


async def test_only_its_owner_reads_it_and_its_room_is_taken_at_the_start(path: Path) -> None:
    spool = opened(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    assert os.stat(path).st_blocks * 512 >= SIZE
    await spool.put(row_of("r1"))
    assert os.stat(path).st_size == SIZE
    spool.took("r1")
    spool.close()
    assert os.listdir(path.parent) == []


async def test_order_is_kept_and_what_the_database_took_is_gone(path: Path) -> None:
    spool = opened(path)
    for name in ("r1", "r2", "r3"):
        await spool.put(row_of(name))
    spool.took("r2")
    assert list(spool.pending) == ["r1", "r3"]
    spool.close()
    again = opened(path)
    assert list(again.pending) == ["r1", "r2", "r3"], "a second time is harmless: the ledger has one settlement each"
    for name in ("r1", "r2", "r3"):
        again.took(name)
    assert content_of(path) == bytes(SIZE)
    await again.put(row_of("r4"))
    assert list(opened(path).pending) == ["r4"]
    again.close()


@pytest.mark.parametrize("seed", range(0, 1400, 100))
async def test_a_kill_in_the_middle_of_a_line_loses_that_line_alone(path: Path, seed: int) -> None:
    spool = opened(path)
    for name in ("r1", "r2"):
        await spool.put(row_of(name))
    content = content_of(path).rstrip(b"\0")
    cut = len(content) - 1 - seed
    cut_off(path, cut)
    again = opened(path)
    whole = content[:cut].count(b"\n")
    assert list(again.pending) == ["r1", "r2"][:whole]
    await again.put(row_of("r3"))
    assert list(opened(path).pending) == [*["r1", "r2"][:whole], "r3"]
    spool.close()
    again.close()


async def test_from_half_of_it_on_it_says_so_and_what_does_not_fit_is_kept_in_memory(path: Path) -> None:
    spool = opened(path)
    durable: list[bool] = []
    crowded: list[bool] = []
    for number in range(20):
        crowded.append(spool.is_full)
        durable.append(await spool.put(row_of(f"r{number:02}")))
    length = len(content_of(path).split(b"\n")[0]) + 1
    fits = (SIZE - 1) // length
    assert durable == [number < fits for number in range(20)]
    assert crowded == [number * length + 1 > SIZE // 2 for number in range(20)]
    assert len(spool.pending) == 20
    assert os.stat(path).st_size == SIZE
    for number in range(20):
        spool.took(f"r{number:02}")
    assert not spool.is_full
    spool.close()


async def test_a_disk_that_fails_is_told_and_nothing_is_said_to_be_durable(path: Path) -> None:
    spool = opened(path)
    await spool.put(row_of("r1"))
    broken, spool._file = spool._file, os.open(path, os.O_RDONLY)
    assert not await spool.put(row_of("r2"))
    assert spool.is_full
    os.close(spool._file)
    spool._file = broken
    assert await spool.put(row_of("r3"))
    assert list(opened(path).pending) == ["r1", "r3"], "the place that failed is left out"
    spool.close()


async def test_replayed_rows_are_the_ledgers_once(db: Database, path: Path) -> None:
    await open_requests(db, "r1", "r2")
    spool = opened(path)
    for name in ("r1", "r2"):
        await spool.put(row_of(name))
    assert [await write_row(db, row) for row in spool.stamped()] == [True, True]
    assert [await write_row(db, row) for row in opened(path).stamped()] == [False, False]
    assert await problems(db) == []
    spool.close()


async def test_a_column_of_a_later_release_is_left_out(path: Path) -> None:
    spool = opened(path)
    await spool.put(row_of("r1") | {"colour": "blue"})
    (row,) = spool.stamped()
    assert "colour" not in row
    spool.close()

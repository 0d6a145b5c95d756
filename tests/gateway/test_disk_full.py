"""A disk that is really full: nothing new is run, what runs ends and is settled, and room is all it takes to go on."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import Gateway, frames, running

pytestmark = pytest.mark.anyio
STREAMS = 6
SPOOL = 64 * 1024


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """On a disk of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mounting, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a disk of its own")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(home: Path) -> Iterator[None]:
    """To the last block."""
    filler = home / "filler"
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


async def refused_until_it_is(gateway: Gateway, status: int) -> None:
    async with asyncio.timeout(20):
        while (await gateway.chat()).status_code != status:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_admission_stops_streams_end_and_all_goes_on(home: Path, durability: str) -> None:
    engine = FakeEngine(Script(hold_at=2))
    async with running(home, engine, durability=durability, spool_bytes=SPOOL, checkpoint_seconds=0.1) as gateway:
        asking = [asyncio.create_task(gateway.chat(stream=True)) for _ in range(STREAMS)]
        while engine.sent < 2 * STREAMS:
            await asyncio.sleep(0.01)
        with full(home):
            await refused_until_it_is(gateway, 503)
            refusal = await gateway.chat()
            assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "storage_full")
            assert int(refusal.headers["retry-after"]) >= 1
            ran = len(engine.requests)
            engine.release.set()
            answers = await asyncio.gather(*asking)
            assert [frames(answer.text)[-1] for answer in answers] == ["[DONE]"] * STREAMS
            assert (await gateway.chat()).json()["error"]["code"] == "storage_full"
            assert len(engine.requests) == ran
            spooled = gateway.parts.books.num_spooled
            assert spooled + len(await gateway.rows("settle")) >= STREAMS
            assert 0 < spooled == lines_of(home / "spool" / "settlements.jsonl"), "there they would survive a kill"
        await refused_until_it_is(gateway, 200)
        async with asyncio.timeout(10):
            while gateway.parts.books.num_spooled:
                await asyncio.sleep(0.05)
        rows = [row for row in await gateway.rows("settle") if row.outcome == "completed"]
        assert len(rows) == len(engine.requests)
        assert sum(row.completion_tokens for row in rows) == engine.sent

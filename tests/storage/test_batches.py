"""What comes together is written together; what fails alone fails alone."""

import asyncio
from collections.abc import Sequence

import pytest

from storage.batches import MOST, Batches
from storage.errors import StorageAway

pytestmark = pytest.mark.anyio


class Disk:
    """Doubles numbers, one batch at a time; refuses 13 always, everything while it is away, and hangs when told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.is_away = False
        self.turn = asyncio.Event()
        self.turn.set()

    async def write(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        await self.turn.wait()
        if self.is_away:
            raise StorageAway("away")
        if 13 in numbers:
            raise ValueError("13")
        return [2 * number for number in numbers]


async def test_alone_it_is_written_at_once_and_together_with_what_waits() -> None:
    disk = Disk()
    batches = Batches(disk.write)
    assert await batches.add(1) == 2
    disk.turn.clear()
    asking = [asyncio.create_task(batches.add(number)) for number in range(100, 400)]
    await asyncio.sleep(0.01)
    disk.turn.set()
    assert await asyncio.gather(*asking) == [2 * number for number in range(100, 400)]
    assert [len(batch) for batch in disk.batches] == [1, MOST, MOST, 300 - 2 * MOST]
    await batches.close()


async def test_one_that_cannot_be_written_loses_only_itself() -> None:
    disk = Disk()
    batches = Batches(disk.write)
    answers = await asyncio.gather(*map(batches.add, (11, 12, 13, 14)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["22", "24", "13", "28"]
    assert disk.batches == [[11, 12, 13, 14], [11], [12], [13], [14]]
    await batches.close()


async def test_a_storage_that_is_away_is_not_asked_for_each_of_them() -> None:
    disk = Disk()
    disk.is_away = True
    batches = Batches(disk.write)
    answers = await asyncio.gather(*map(batches.add, range(50)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {StorageAway}
    assert len(disk.batches) == 1
    disk.is_away = False
    assert await batches.add(2) == 4
    await batches.close()


async def test_a_batch_that_hangs_holds_up_the_next_for_a_second_only() -> None:
    disk = Disk()
    disk.turn.clear()
    batches = Batches(disk.write)
    first = asyncio.create_task(batches.add(1))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(batches.add(2))
    async with asyncio.timeout(3):
        while len(disk.batches) < 2:
            await asyncio.sleep(0.01)
    disk.turn.set()
    assert await asyncio.gather(first, second) == [2, 4]
    await batches.close()


async def test_who_leaves_undoes_nothing_and_who_waits_at_the_end_is_told() -> None:
    disk = Disk()
    disk.turn.clear()
    batches = Batches(disk.write)
    leaving, staying = (asyncio.create_task(batches.add(number)) for number in (1, 2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    disk.turn.set()
    assert await staying == 4
    assert disk.batches == [[1, 2]]
    disk.turn.clear()
    waiting = asyncio.create_task(batches.add(3))
    await asyncio.sleep(0.01)
    await batches.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting

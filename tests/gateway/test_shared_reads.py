"""One read for all who ask the same at the same time, and nobody's leaving is another's loss."""

import asyncio

import pytest

from gateway.shared_reads import SharedReads

pytestmark = pytest.mark.anyio


class Store:
    def __init__(self) -> None:
        self.reads = 0
        self.open = asyncio.Event()

    async def read(self) -> int:
        self.reads += 1
        await self.open.wait()
        return self.reads


async def test_all_who_ask_together_share_one_read_and_the_next_reads_anew() -> None:
    shared, store = SharedReads(), Store()
    asking = [asyncio.create_task(shared.read("key", store.read)) for _ in range(50)]
    await asyncio.sleep(0)
    store.open.set()
    assert await asyncio.gather(*asking) == [1] * 50
    assert await shared.read("key", store.read) == 2


async def test_different_questions_are_read_apart() -> None:
    shared, store = SharedReads(), Store()
    store.open.set()
    await asyncio.gather(shared.read("a", store.read), shared.read("b", store.read))
    assert store.reads == 2


async def test_one_that_leaves_takes_nothing_from_the_others() -> None:
    shared, store = SharedReads(), Store()
    first, second = (asyncio.create_task(shared.read("key", store.read)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    store.open.set()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_failure_reaches_all_and_is_not_remembered() -> None:
    shared, calls = SharedReads(), 0

    async def fails() -> int:
        nonlocal calls
        calls += 1
        raise ValueError

    results = await asyncio.gather(*(shared.read("key", fails) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    with pytest.raises(ValueError):  # noqa: PT011 - the very one raised above
        await shared.read("key", fails)
    assert calls == 2

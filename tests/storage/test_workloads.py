"""However many label at once, a tenant has no more labels than it may."""

import asyncio

import pytest

from storage import Database
from storage.workloads import MOST, WorkloadLabels


@pytest.mark.anyio
async def test_labels_are_counted_one_after_the_other(db: Database) -> None:
    async def label(number: int) -> bool:
        async with db.unit() as session:
            return f"l{number}" in await WorkloadLabels(session).with_one_more("default", f"l{number}")

    took = await asyncio.gather(*map(label, range(MOST + 10)))
    assert took.count(True) == MOST
    async with db.view() as session:
        assert len(await WorkloadLabels(session).of("default")) == MOST

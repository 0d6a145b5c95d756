"""A tenant has fifty labels, whichever gateway it asks; the fifty-first is filed as `other`."""

import asyncio
from pathlib import Path

import pytest

from gateway.workloads import Workloads
from storage import Database
from storage.tenants import Tenants
from storage.workloads import MOST, WorkloadLabels
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import running

pytestmark = pytest.mark.anyio


async def test_the_fifty_first_label_is_filed_as_other(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        for number in range(MOST + 2):
            label = f"work-{number}"
            assert (await gateway.chat(metadata={"workload": label})).status_code == 200
        assert (await gateway.chat(metadata={"workload": "work-3"})).status_code == 200
        filed = [row.workload for row in await gateway.rows("settle")]
        assert filed == [*(f"work-{number}" for number in range(MOST)), "other", "other", "work-3"]


async def test_gateways_count_together_and_tenants_apart(tmp_path: Path) -> None:
    db = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")
    async with db.unit() as session:
        for tenant in ("a", "b"):
            await Tenants(session).ensure(tenant, tenant)
    gateways = [Workloads(db, 20) for _ in range(3)]
    asked = [(gateways[n % 3], f"l{n}") for n in range(MOST + 20)]
    filed = await asyncio.gather(*(gateway.file("a", label) for gateway, label in asked))
    assert filed.count("other") == 20
    assert await gateways[0].file("b", "l1") == "l1"
    assert [await gateways[0].file("a", label) for label in ("other", None)] == ["other", None]
    async with db.view() as session:
        kept = await WorkloadLabels(session).of("a")
    assert len(kept) == MOST
    again = await asyncio.gather(*(Workloads(db, 20).file("a", label) for label in kept))
    assert set(again) == kept, "a gateway that starts anew knows them"
    await db.close()

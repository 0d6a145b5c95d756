"""Sums of savings, rolled up or not, are those of the rows; groups are told apart, and controls are everybody's."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, select

from storage import Database
from storage.database import Session
from storage.models import EPOCH, ledger_entries, rollup_state, savings_days, savings_hours, usage_series
from storage.rollups.roller import Roller
from storage.savings.book import SavingsBook
from storage.savings.cohorts import Cohorts, Saving
from storage.savings.rollup import SavingsRollUp
from storage.savings.sums import total
from storage.savings.values import Holdout, Modelled, NotEnough
from storage.values.usage import UsageQuery
from tests.storage.entries import ENDED
from tests.storage.settled import adjustment, random_rows, settled_row, write

pytestmark = pytest.mark.anyio
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + 2 * DAY + timedelta(hours=5, minutes=30)


def ran(request_id: str, at: datetime, decode: float, **changes: Any) -> dict[str, Any]:
    """100 decoded tokens in so many seconds, alone in its passes."""
    version = changes.setdefault("config_version", 1)
    figures = replace(
        ENDED,
        generated_tokens=101,
        steps=60,
        accepted_delivered=40,
        batch_milli=1_000,
        timings={"decode": decode, "verify": decode},
        config_versions={version: 60},
    )
    row = settled_row(request_id, at, figures, **{"deployment_id": "dep_1", "sampled": False, **changes})
    return row | {"holdout_ppm": 20_000 if row["cohort"] else None}


def mixed(seed: int, number: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(seed)
    for n in range(number):
        tenant, at = draw.choice("ab"), START + draw.random() * (NOW - START)
        who = {"tenant_id": tenant, "project_id": f"proj_{tenant}", "key_id": f"{tenant}-{draw.randrange(3)}"}
        what = {"deployment_id": draw.choice(["dep_1", "dep_2"]), "config_version": draw.choice([1, 2])}
        kind = {"cohort": draw.choice(["treated", "control", None]), "workload": draw.choice([None, "edits"])}
        row = ran(f"m{seed}-{n}", at, draw.uniform(0.5, 3), **who, **what, **kind, sampled=draw.random() < 0.5)
        yield row | {"batch_milli": draw.choice([1_000, 1_600, 9_000]), "prompt_tokens": draw.choice([10, 5_000])}


async def roll(db: Database) -> int:
    async def clock(_: Session) -> float:
        return NOW.timestamp()

    return await Roller(db, SavingsRollUp(), "g1", clock).run()


async def cohorts(db: Database, query: UsageQuery) -> dict[Any, Cohorts]:
    async with db.view() as session:
        return await SavingsBook(session).cohorts(query)


async def savings(db: Database, query: UsageQuery) -> dict[Any, Saving]:
    async with db.view() as session:
        return await SavingsBook(session).savings(query)


async def kept(db: Database, *tables: Table) -> list[Any]:
    async with db.view() as session:
        return [list(await session.execute(select(table).order_by(*table.primary_key))) for table in tables]


async def forget(db: Database, *tables: Table) -> None:
    async with db.unit() as session:
        for table in (*tables, rollup_state):
            await session.execute(table.delete())


QUERIES = [
    UsageQuery(START, NOW, None),
    UsageQuery(START, NOW, DAY, ["tenant_id", "workload"]),
    UsageQuery(START, NOW, HOUR, ["deployment_id", "config_version"], deployment_ids=["dep_1"]),
    UsageQuery(START + timedelta(minutes=17), NOW - timedelta(minutes=43), None, ["cohort"], ["a"]),
    UsageQuery(START, NOW, DAY, ["project_id"], key_ids=["a-1", "b-2"], cohorts=["treated", None]),
]


async def test_whatever_is_asked_is_what_the_rows_alone_answer(db: Database) -> None:
    await write(db, [*mixed(1, 400), *random_rows(1, 50, START, NOW - START), adjustment("x", START, 5)])
    by_rows = [await cohorts(db, query) for query in QUERIES]
    assert await roll(db) > 24
    assert [await cohorts(db, query) for query in QUERIES] == by_rows
    assert all(by_rows)
    [everything] = by_rows[0].values()
    assert min(len(everything.treated), len(everything.undrawn), *map(len, everything.controls)) > 10


async def test_what_is_rolled_up_is_no_longer_read(db: Database) -> None:
    await write(db, mixed(2, 100))
    query = UsageQuery(START, START + 2 * DAY, DAY, ["tenant_id"])
    before = await cohorts(db, query)
    await roll(db)
    await forget_rows(db)
    assert await cohorts(db, query) == before != {}


async def forget_rows(db: Database) -> None:
    async with db.unit() as session:
        await session.execute(ledger_entries.delete())


async def test_rolled_up_anew_it_is_the_same_to_the_byte(db: Database) -> None:
    rows = list(mixed(3, 200))
    tables = (usage_series, savings_hours, savings_days)
    await write(db, rows)
    await roll(db)
    first = await kept(db, *tables)
    await forget(db, *tables, ledger_entries)
    await write(db, reversed(rows))
    await roll(db)
    assert await kept(db, *tables) == first
    assert all(first)


async def test_a_saving_is_measured_against_controls_of_every_tenant(db: Database) -> None:
    rows = [ran(f"a{n}", START, 1.2, tenant_id="a", cohort="treated") for n in range(10)]
    rows += [ran(f"b{n}", START, 2.0, tenant_id="b", cohort="control") for n in range(25)]
    rows += [ran(f"c{n}", START, 9.0, tenant_id="b", cohort="control", config_version=2) for n in range(25)]
    rows += [ran(f"d{n}", START - DAY, 9.0, tenant_id="b", cohort="control") for n in range(25)]
    await write(db, rows)
    found = await savings(db, UsageQuery(START, START + DAY, DAY, ["tenant_id"], ["a"]))
    [(key, said)] = found.items()
    assert key == ((START - EPOCH) // timedelta(microseconds=1), "a")
    assert isinstance(said.drawn, Holdout)
    assert (said.drawn.saved_us, said.drawn.controls, said.drawn.requests) == (8_000_000, 25, 10)
    assert (said.undrawn, said.lost_us, said.lengths) == (None, None, None)
    of_b = (await savings(db, UsageQuery(START, START + DAY, DAY, ["tenant_id"], ["b"])))[key[0], "b"]
    assert isinstance(of_b.drawn, NotEnough)


async def test_what_its_time_cannot_tell_is_modelled_from_the_month_before(db: Database) -> None:
    rows = [ran(f"t{n}", START, 1.2, cohort="treated") for n in range(10)]
    rows += [ran(f"u{n}", START, 0.5, cohort=None) for n in range(3)]
    rows += [ran(f"o{n}", START - 29 * DAY, 2.0, cohort="control") for n in range(40)]
    rows += [ran(f"p{n}", START - 30 * DAY, 9.0, cohort="control") for n in range(40)]
    await write(db, rows)
    [said] = (await savings(db, UsageQuery(START, START + DAY, None))).values()
    assert isinstance(said.drawn, Modelled)
    assert (said.drawn.saved_us, said.drawn.controls) == (8_000_000, 40)
    assert isinstance(said.undrawn, Modelled)
    assert (said.undrawn.saved_us, said.undrawn.requests) == (4_500_000, 3)


async def test_the_book_of_a_tenant_holds_nothing_of_another(db: Database) -> None:
    await write(db, mixed(4, 200))
    for rolled in (False, True):
        if rolled:
            await roll(db)
        both = [await cohorts(db, UsageQuery(START, NOW, None, tenant_ids=[tenant])) for tenant in "ab"]
        of_a, of_b = (total([*c.treated.values(), *c.halves.whole.values()]) for [c] in (b.values() for b in both))
        [every] = (await cohorts(db, UsageQuery(START, NOW, None))).values()
        assert of_a + of_b == total([*every.treated.values(), *every.halves.whole.values()])
        assert min(of_a.requests, of_b.requests) > 20

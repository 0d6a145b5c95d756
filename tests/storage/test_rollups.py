"""Roll-ups are sums of settled rows: whatever is asked, it is what the rows alone would answer."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, select, text

from storage import Database
from storage.database import Session
from storage.exports import MARGIN
from storage.models import ledger_entries, rollup_state, usage_days, usage_hours, usage_series
from storage.rollups import roller as rolling
from storage.rollups.check import find_mismatches
from storage.rollups.kept import forget, kept_from, may_forget
from storage.rollups.rebuild import rebuild
from storage.rollups.roller import Roller
from storage.rollups.series import LEFT_OUT
from storage.rollups.usage_rollup import UsageRollUp
from storage.rollups.watermark import Watermark, Watermarks
from storage.usage import GROUPS, Usage, UsageQuery, UsageRow
from tests.storage.settled import random_rows, settled_row, write

pytestmark = pytest.mark.anyio
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 3, 1, 5, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 3, tzinfo=UTC)
NOW = START + 2 * DAY + 30 * timedelta(minutes=1)


def roller(db: Database, now: datetime = NOW, owner: str = "g1") -> Roller:
    async def clock(_: Session) -> float:
        return now.timestamp()

    return Roller(db, UsageRollUp(), owner, clock)


async def _rows(db: Database, query: UsageQuery) -> list[UsageRow]:
    async with db.view() as session:
        return await Usage(session).rows(query)


async def _all(db: Database, *tables: Table) -> list[Any]:
    async with db.view() as session:
        return [list(await session.execute(select(table).order_by(*table.primary_key))) for table in tables]


async def _forget(db: Database, *tables: Table) -> None:
    async with db.unit() as session:
        for table in (*tables, rollup_state):
            await session.execute(table.delete())


QUERIES = [
    UsageQuery(START, NOW + HOUR, DAY),
    UsageQuery(START, NOW + HOUR, HOUR, ("deployment_id", "cohort")),
    UsageQuery(START - DAY, NOW + DAY, None, ("tenant_id", "workload")),
    UsageQuery(START + timedelta(minutes=17), NOW - timedelta(minutes=43), DAY, ("key_id",), ["a", "b"]),
    UsageQuery(START, NOW, HOUR, ("project_id", "price_version"), project_ids=["proj_a1", "proj_c0"]),
    UsageQuery(START, NOW, DAY, GROUPS, key_ids=["a-1", "c-3"], cohorts=["control", None]),
    UsageQuery(NOW - DAY, NOW, timedelta(minutes=1), ("model",), models=["模型"], config_versions=[2]),
]


async def test_whatever_is_asked_is_what_the_rows_alone_answer(db: Database) -> None:
    await write(db, random_rows(1, 400, START, NOW - START))
    by_rows = [await _rows(db, query) for query in QUERIES]
    assert await roller(db).run() > 8
    async with db.view() as session:
        assert await Watermarks(session).of("usage") == Watermark(START + 2 * DAY, START + timedelta(hours=43))
    assert [await _rows(db, query) for query in QUERIES] == by_rows
    assert all(sum(row.requests for row in rows) > 10 for rows in by_rows)


async def test_what_is_rolled_up_is_no_longer_read(db: Database) -> None:
    await write(db, random_rows(2, 200, START, NOW - START))
    query = UsageQuery(START - DAY, START + 2 * DAY, DAY, ("tenant_id",))
    before = await _rows(db, query)
    await roller(db).run()
    async with db.unit() as session:
        await session.execute(ledger_entries.delete())
    assert await _rows(db, query) == before != []


async def test_an_hour_is_rolled_up_when_it_is_final_and_not_before(db: Database) -> None:
    await write(db, [settled_row("a", START), settled_row("b", START + HOUR)])
    assert await roller(db, START + HOUR + MARGIN - timedelta(microseconds=1)).run() == 0
    assert await roller(db, START + HOUR + MARGIN).run() == 1
    async with db.view() as session:
        report = await Usage(session).report(UsageQuery(START, START + DAY, None))
    assert (report.rolled_up_through, report.rows[0].requests) == (START + HOUR, 2)
    [hours] = await _all(db, usage_hours)
    assert {(row.at, row.requests) for row in hours} == {(START, 1)}


async def test_a_settlement_that_came_late_counts_once_where_it_was_taken(db: Database) -> None:
    await write(db, [settled_row("early", START)])
    await roller(db, START + 2 * HOUR + MARGIN).run()
    await write(db, [settled_row("late", START + 2 * HOUR + MARGIN)])
    await roller(db, START + 3 * HOUR + MARGIN).run()
    rows = await _rows(db, UsageQuery(START, START + DAY, HOUR))
    assert [(row.bucket, row.requests) for row in rows] == [(START, 1), (START + 2 * HOUR, 1)]


async def test_levels_agree(db: Database) -> None:
    await write(db, random_rows(3, 250, START, NOW - START))
    await roller(db).run()
    for table in ("usage_hours", "usage_days"):
        sums = f"SELECT sum(requests), sum(steps), sum(decode_us), sum(adjust_micros), sum(acceptance_ppm) FROM {table}"
        by_level = f"{sums} t JOIN usage_series s ON s.id = t.series_id WHERE level = '%s'"
        async with db.view() as session:
            found = [(await session.execute(text(by_level % level))).one() for level in LEFT_OUT]
        assert len(found) == 5
        assert set(found) == {found[0]}
        assert found[0][0] > 150


async def test_rolled_up_anew_it_is_the_same_to_the_byte(db: Database) -> None:
    rows = random_rows(4, 120, START, NOW - START)
    await write(db, rows)
    await roller(db).run()
    first = await _all(db, usage_series, usage_hours, usage_days)
    await _forget(db, usage_series, usage_hours, usage_days, ledger_entries)
    await write(db, reversed(rows))
    await roller(db).run()
    assert await _all(db, usage_series, usage_hours, usage_days) == first
    await _forget(db)
    await roller(db).run()
    assert await _all(db, usage_series, usage_hours, usage_days) == first


@pytest.mark.parametrize("owners", ["abc", "aaa"], ids=["by a lease", "though their lease ran out"])
async def test_gateways_that_race_roll_each_hour_once(db: Database, owners: str) -> None:
    await write(db, random_rows(5, 100, START, DAY))
    query = UsageQuery(START, NOW, None)
    by_rows = await _rows(db, query)
    steps = await roller(db).run()
    await _forget(db, usage_hours, usage_days)
    done = await asyncio.gather(*(roller(db, owner=owner).run() for owner in owners))
    assert sum(done) == steps
    assert await _rows(db, query) == by_rows


async def test_a_gateway_that_died_at_work_is_followed_when_its_lease_ran_out(db: Database) -> None:
    await write(db, random_rows(6, 50, START, 3 * HOUR))
    assert await roller(db, START + HOUR + MARGIN, "dead").run() == 1
    later = START + 2 * HOUR + MARGIN
    async with db.unit() as session:
        await session.execute(rollup_state.update().values(owner="dead", lease_until=later + HOUR))
    assert await roller(db, later, "other").run() == 0
    assert await roller(db, later + HOUR, "other").run() == 2


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_sums_are_written_a_hundred_rows_a_transaction(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(db, [settled_row(f"r{n}", START, tenant_id=f"t{n}", key_id=f"k{n}") for n in range(160)])
    sizes: list[int] = []
    unit, written = db.unit, rolling.write

    def counted() -> Any:
        sizes.append(0)
        return unit()

    async def noted(session: Session, table: Table, rows: list[Any]) -> None:
        sizes[-1] += len(rows)
        await written(session, table, rows)

    monkeypatch.setattr(db, "unit", counted)
    monkeypatch.setattr(rolling, "write", noted)
    assert await roller(db, START + HOUR + MARGIN).run() == 1
    assert sum(sizes) == 2 * (4 * 160 + 1)
    assert max(sizes) <= 100


async def test_a_pause_without_a_row_costs_no_step(db: Database) -> None:
    await write(db, [settled_row("a", START), settled_row("b", START + 300 * DAY)])
    assert await roller(db, START + 300 * DAY + HOUR + MARGIN).run() == 5
    rows = await _rows(db, UsageQuery(START, START + 301 * DAY, DAY))
    assert [row.requests for row in rows] == [1, 1]


async def _rebuild(db: Database) -> None:
    async def clock(_: Session) -> float:
        return NOW.timestamp()

    await rebuild(db, UsageRollUp(), "cli", clock)


async def _mismatches(db: Database) -> set[tuple[str, str]]:
    async with db.view() as session:
        return {(problem.rule, problem.request_id) for problem in await find_mismatches(session)}


async def test_rebuilt_in_place_it_is_the_same_to_the_byte_and_repaired(db: Database) -> None:
    await write(db, random_rows(7, 80, START, NOW - START))
    await _rebuild(db)
    tables = (rollup_state, usage_series, usage_hours, usage_days)
    first = await _all(db, *tables)
    await _rebuild(db)
    assert await _all(db, *tables) == first
    async with db.unit() as session:
        await session.execute(usage_hours.update().values(steps=usage_hours.c.steps + 1))
        await session.execute(usage_days.update().values(series_id=usage_days.c.series_id + 1))
    assert await _mismatches(db) != set()
    await _rebuild(db)
    assert await _all(db, *tables) == first
    assert await _mismatches(db) == set()


async def test_sums_outlive_their_rows_and_a_rebuild(db: Database) -> None:
    await write(db, random_rows(8, 150, START, NOW - START))
    await roller(db).run()
    query = UsageQuery(START, NOW, DAY, ("model",))
    before, first = await _rows(db, query), await _all(db, usage_series, usage_hours, usage_days)
    async with db.unit() as session:
        # The third day is not over, so that its rows are needed.
        assert await may_forget(session, NOW) == MIDNIGHT
        await forget(session, MIDNIGHT)
        await session.execute(ledger_entries.delete().where(ledger_entries.c.at < MIDNIGHT))
    await _rebuild(db)
    assert await _rows(db, query) == before
    assert await _all(db, usage_series, usage_hours, usage_days) == first
    assert await _mismatches(db) == set()


async def test_rows_that_no_roll_up_has_seen_may_not_be_forgotten(db: Database) -> None:
    await write(db, [settled_row("a", START)])
    async with db.unit() as session:
        assert await may_forget(session, NOW) < START
    await roller(db, START + timedelta(hours=5)).run()
    async with db.unit() as session:
        assert await may_forget(session, NOW) < START
        await forget(session, START)
        await forget(session, START - DAY)
        assert await kept_from(session) == START


@pytest.mark.parametrize("table", ["ledger_entries", "usage_hours", "usage_days"])
async def test_a_sum_that_is_off_is_found(db: Database, table: str) -> None:
    await write(db, [settled_row(f"r{n}", START + n * 4 * HOUR) for n in range(6)])
    await roller(db).run()
    assert await _mismatches(db) == set()
    of_project = "series_id IN (SELECT id FROM usage_series WHERE level = 'project')"
    some = "request_id = 'r3'" if table == "ledger_entries" else of_project
    async with db.unit() as session:
        await session.execute(text(f"UPDATE {table} SET prompt_tokens = prompt_tokens + 1 WHERE {some}"))
    found = await _mismatches(db)
    if table == "ledger_entries":
        assert found == {("the sums of an hour are those of its settled rows", "2026-03-01T17:00Z")}
    else:
        assert {rule for rule, _ in found} == {f"{table} by project add up to the hours of the fleet"}


moments = st.integers(0, 3 * 24 * 60).map(lambda minutes: START - DAY + minutes * timedelta(minutes=1))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**20),
    ends=st.tuples(moments, moments).filter(lambda ends: ends[0] != ends[1]).map(sorted),
    width=st.sampled_from([None, HOUR, DAY, 2 * HOUR]),
    groups=st.sets(st.sampled_from(GROUPS), max_size=3).map(tuple),
    through=moments,
)
async def test_any_range_adds_up(
    db: Database, seed: int, ends: list[datetime], width: Any, groups: Any, through: datetime
) -> None:
    await _forget(db, ledger_entries, usage_series, usage_hours, usage_days)
    await write(db, random_rows(seed, 30, START - HOUR, DAY + 2 * HOUR))
    query = UsageQuery(*ends, width, groups)
    by_rows = await _rows(db, query)
    await roller(db, through).run()
    assert await _rows(db, query) == by_rows

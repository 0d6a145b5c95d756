"""Entries are told in one order, none twice and none left out; one gateway at a time tells them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, text

from storage import Database
from storage.entries import open_values, settle_values
from storage.errors import UnknownCursor
from storage.exports import BEGINNING, Exports, Place, Span, Turn, last_of
from storage.models import ledger_entries
from storage.values import Settlement
from tests.storage.entries import ENDED, open_requests, opening

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LEASE = 10 * SECOND


def entry(number: int, kind: str = "settle", at: datetime | None = None, tenant: str = "default") -> dict[str, Any]:
    at = at or NOON + number * SECOND
    values = open_values(opening(f"r{number}", tenant_id=tenant), at)
    if kind == "settle":
        values |= settle_values(Settlement(f"r{number}", "completed", ENDED), at)
    return values | {"entry_id": f"{number:032x}", "kind": kind, "seq": 1}


async def write(db: Database, *entries: dict[str, Any]) -> None:
    async with db.unit() as session:
        for one in entries:
            await session.execute(insert(ledger_entries), [one])


async def told(db: Database, span: Span, limit: int = 100) -> list[int]:
    async with db.view() as session:
        return [int(row.entry_id, 16) for row in await Exports(session).entries(span, limit)]


async def test_settlements_and_adjustments_come_in_one_order(db: Database) -> None:
    await open_requests(db, "open", at=NOON)
    await write(db, entry(5), entry(2, "adjust"), entry(1), entry(4, "adjust"), entry(3), entry(6, "checkpoint"))
    assert await told(db, Span(BEGINNING, NOON + 9 * SECOND)) == [1, 2, 3, 4, 5]
    assert await told(db, Span(Place(NOON + 2 * SECOND, f"{2:032x}"), NOON + 5 * SECOND)) == [3, 4]


async def test_entries_of_one_moment_are_told_apart_by_their_ids(db: Database) -> None:
    await write(db, *(entry(number, "adjust" if number % 3 else "settle", NOON) for number in range(9, 0, -1)))
    found: list[int] = []
    place = BEGINNING
    async with db.view() as session:
        while rows := await Exports(session).entries(Span(place, NOON + SECOND), 2):
            found += [int(row.entry_id, 16) for row in rows]
            place = last_of(rows)
    assert found == list(range(1, 10))


async def test_a_tenant_is_told_of_its_own(db: Database) -> None:
    await write(db, *(entry(number, tenant=f"t{number % 2}") for number in range(1, 7)))
    assert await told(db, Span(BEGINNING, NOON + 9 * SECOND, "t1")) == [1, 3, 5]
    async with db.view() as session:
        exports = Exports(session)
        assert await exports.place_of(f"{3:032x}", "t1") == Place(NOON + 3 * SECOND, f"{3:032x}")
        for unknown in (f"{2:032x}", "nothing"):
            with pytest.raises(UnknownCursor):
                await exports.place_of(unknown, "t1")


async def test_a_page_goes_through_an_index(db: Database) -> None:
    await write(db, *(entry(number, "adjust" if number % 9 else "settle") for number in range(200)))
    ran: list[tuple[str, Any]] = []
    async with db.view() as session:
        sync = session.sync_connection
        assert sync is not None
        event.listen(sync, "before_cursor_execute", lambda *args: ran.append((args[2], args[3])))
        if session.dialect.name == "postgresql":
            await session.execute(text("SET LOCAL enable_seqscan = off"))
        await Exports(session).entries(Span(Place(NOON + 100 * SECOND, "0"), NOON + 900 * SECOND), 10)
        explain = "EXPLAIN QUERY PLAN " if session.dialect.name == "sqlite" else "EXPLAIN "
        plans = [
            repr((await session.exec_driver_sql(explain + statement, parameters)).all())
            for statement, parameters in list(ran)
            if "ledger_entries" in statement
        ]
    for name, plan in zip(("ix_ledger_entries_at", "ix_ledger_entries_adjust_at"), plans, strict=True):
        assert name in plan


async def test_one_gateway_at_a_time_has_the_turn(db: Database) -> None:
    async with db.unit() as session:
        ours, theirs = Turn(session, "webhook", "ours"), Turn(session, "webhook", "theirs")
        assert await ours.take(NOON, LEASE) == BEGINNING
        assert await theirs.take(NOON + LEASE - SECOND, LEASE) is None
        place = Place(NOON, f"{1:032x}")
        assert await ours.move(place)
        assert await ours.take(NOON + 5 * SECOND, LEASE) == place
        assert await theirs.take(NOON + LEASE, LEASE) is None
        assert await theirs.take(NOON + 5 * SECOND + LEASE, LEASE) == place
        # Whoever was too slow moves nothing: what it sent is sent again.
        assert not await ours.move(Place(NOON + SECOND, f"{2:032x}"))
        assert await Exports(session).reached("webhook") == place
        await theirs.give_up()
        assert await ours.take(NOON + 6 * SECOND + LEASE, LEASE) == place

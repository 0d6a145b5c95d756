"""The audit log: written with its change or not at all, and whatever is done to it afterwards is noticed."""

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import delete, select, update

from storage import Database
from storage.audit import Audit
from storage.errors import UnknownCursor
from storage.models import audit_ends, audit_events
from storage.paging import Cursor
from storage.tenants import Tenants
from storage.values.audit import Actor, AuditEvent, AuditQuery, AuditReport

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
ACTOR = Actor("api_key", "abcdefghijkl", "r1", "127.0.0.1")
SECRET = "sk-sg-abcdefghijkl-" + "S" * 43


async def _record(db: Database, *targets: str, tenant_id: str = "default") -> None:
    for target in targets:
        async with db.unit() as session:
            audit = Audit(session, KEY)
            await audit.record(ACTOR, "project.updated", target, {"name": "a"}, {"name": "b"}, tenant_id=tenant_id)


async def _verify(db: Database, key: bytes = KEY) -> AuditReport:
    async with db.view() as session:
        return await Audit(session, key).verify()


async def _page(db: Database, query: AuditQuery | None = None, cursor: Cursor | None = None) -> Sequence[AuditEvent]:
    async with db.view() as session:
        events, _ = await Audit(session, KEY).page(query or AuditQuery(), cursor or Cursor())
    return events


async def test_events_are_kept_in_order_and_hold(db: Database) -> None:
    await _record(db, "p1", "p2", "p3")
    report = await _verify(db)
    assert (report.events, report.erased, report.head.seq, report.problems) == (3, 0, 3, ())
    newest = (await _page(db))[0]
    assert (newest.action, newest.target, newest.actor) == ("project.updated", "p3", ACTOR)
    assert (newest.before, newest.after) == ({"name": "a"}, {"name": "b"})


async def test_an_event_goes_with_its_change(db: Database) -> None:
    async def change() -> None:
        async with db.unit() as session:
            await Tenants(session).create("lost", "Lost")
            await Audit(session, KEY).record(ACTOR, "tenant.created", "lost")
            raise ZeroDivisionError

    await _record(db, "p1")
    with pytest.raises(ZeroDivisionError):
        await change()
    assert (await _verify(db)).events == 1


async def test_changes_at_the_same_moment_make_one_chain(db: Database) -> None:
    await asyncio.gather(*(_record(db, f"p{number}") for number in range(20)))
    report = await _verify(db)
    assert (report.events, report.problems) == (20, ())


@pytest.mark.parametrize(
    ("column", "value"),
    [("actor_id", "someone"), ("target", "other"), ("action", "x"), ("source", None), ("tenant_id", None)],
)
async def test_a_changed_event_is_noticed(db: Database, column: str, value: str | None) -> None:
    await _record(db, "p1", "p2", "p3")
    async with db.unit() as session:
        await session.execute(update(audit_events).where(audit_events.c.seq == 2).values({column: value}))
    assert [(p.rule, p.seq) for p in (await _verify(db)).problems] == [("it was changed", 2)]


async def test_changed_details_are_noticed_and_erased_ones_are_counted(db: Database) -> None:
    await _record(db, "p1", "p2", "p3")
    async with db.unit() as session:
        await session.execute(update(audit_events).where(audit_events.c.seq == 1).values(details="{}"))
        await session.execute(update(audit_events).where(audit_events.c.seq == 3).values(details=None))
    report = await _verify(db)
    assert ([p.rule for p in report.problems], report.erased) == (["its details were changed"], 1)
    assert (await _page(db))[0].is_erased


async def test_a_missing_event_is_noticed(db: Database) -> None:
    await _record(db, "p1", "p2", "p3")
    async with db.unit() as session:
        await session.execute(delete(audit_events).where(audit_events.c.seq == 2))
    rules = {p.rule for p in (await _verify(db)).problems}
    assert rules == {"events are missing before this one", "it does not follow the event before it"}


@pytest.mark.parametrize("cut", [1, 3])
async def test_a_cut_tail_is_noticed(db: Database, cut: int) -> None:
    await _record(db, "p1", "p2", "p3")
    async with db.unit() as session:
        await session.execute(delete(audit_events).where(audit_events.c.seq >= cut))
    assert [p.rule for p in (await _verify(db)).problems] == ["the end was cut off or added to"]


async def test_a_head_that_was_set_back_is_noticed(db: Database) -> None:
    await _record(db, "p1", "p2", "p3")
    async with db.unit() as session:
        mark = await session.scalar(select(audit_events.c.mac).where(audit_events.c.seq == 2))
        await session.execute(delete(audit_events).where(audit_events.c.seq == 3))
        await session.execute(update(audit_ends).values(seq=2, event_mac=mark))
    assert [p.rule for p in (await _verify(db)).problems] == ["the head was changed"]
    async with db.unit() as session:
        await session.execute(delete(audit_ends))
    assert [p.rule for p in (await _verify(db)).problems] == ["the head is missing"]


async def test_another_key_verifies_nothing(db: Database) -> None:
    await _record(db, "p1")
    rules = [p.rule for p in (await _verify(db, b"x" * 32)).problems]
    assert rules == ["it was changed", "its details were changed", "the head was changed"]


async def test_secrets_are_left_out(db: Database) -> None:
    after = {
        "name": f"pasted {SECRET}!",
        "value": "hunter2",
        "nested": [{"api_key": "hunter2", "secret_sha256": "hunter2"}],
    }
    async with db.unit() as session:
        await Audit(session, KEY).record(ACTOR, "api_key.created", f"k {SECRET}", None, after)
        [row] = await session.execute(select(audit_events))
    assert "hunter2" not in repr(row)
    assert "S" * 43 not in repr(row)
    [event] = await _page(db)
    assert event.after is not None
    assert event.after["name"] == "pasted sk-sg-abcdefghijkl-[redacted]!"


async def test_a_tenant_reads_its_own_events_page_by_page(db: Database) -> None:
    await _record(db, "p1", "p2", "p3")
    await _record(db, "theirs", tenant_id="other")
    ours = AuditQuery(tenant_id="default")
    found = await _page(db, ours)
    assert [event.target for event in found] == ["p3", "p2", "p1"]
    assert [e.target for e in await _page(db, ours, Cursor(limit=1, after=found[0].id))] == ["p2"]
    assert [e.target for e in await _page(db, ours, Cursor(before=found[1].id))] == ["p3"]
    assert [e.target for e in await _page(db, AuditQuery(targets=["p1"]))] == ["p1"]
    [theirs] = await _page(db, AuditQuery(tenant_id="other"))
    with pytest.raises(UnknownCursor):
        await _page(db, ours, Cursor(after=theirs.id))

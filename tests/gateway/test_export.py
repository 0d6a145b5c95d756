"""Settled entries reach a webhook: at least once, in order, signed, by one gateway at a time, whatever it answers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import openai
import pytest
from sqlalchemy import insert

from gateway.export.exporter import BATCH, Exporter
from gateway.export.webhook import Webhook
from storage import Database
from storage.exports import MARGIN
from storage.models import ledger_entries
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.processes import started
from tests.gateway.receiver import Receiver, receiving
from tests.gateway.running import running
from tests.storage.test_exports import entry

pytestmark = pytest.mark.anyio
SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29r"
DUE = datetime.now(UTC) - timedelta(hours=1)


async def write_settled(db: Database, *numbers: int, at: datetime = DUE, tenant: str = "default") -> list[str]:
    """Each number's request, so many milliseconds after `at`; returns the ids of the settlements."""
    times = {number: at + number * timedelta(milliseconds=1) for number in numbers}
    rows = [entry(number, at=time, tenant=tenant) for number, time in times.items()]
    opened = [
        entry(number, "open", time, tenant) | {"entry_id": f"open{number}", "seq": 0} for number, time in times.items()
    ]
    async with db.unit() as session:
        await session.execute(insert(ledger_entries), opened)
        await session.execute(insert(ledger_entries), rows)
    return [row["entry_id"] for row in rows]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Database]:
    """A home's database without its gateway: what is written now was there when the gateway starts."""
    db = await Database.open(f"sqlite+aiosqlite:///{path / 'specgate.db'}")
    yield db
    await db.close()


def _exporter(db: Database, receiver: Receiver, owner: str = "a", **changes: float) -> Exporter:
    webhook = Webhook(receiver.url, SECRET, changes.get("patience", 5.0))
    return Exporter(db, webhook, owner, lease=changes.get("lease", 5.0), every=0.02)


async def _until(exporter: Exporter, phase: str) -> None:
    async with asyncio.timeout(10):
        while exporter.state.phase != phase:
            await asyncio.sleep(0.01)


async def test_what_is_due_arrives_once_and_signed(tmp_path: Path) -> None:
    async with opened(tmp_path) as db, receiving() as receiver:
        ids = await write_settled(db, *range(1, 4))
        await write_settled(db, 4, at=datetime.now(UTC) - MARGIN + timedelta(seconds=30))
        async with _exporter(db, receiver) as exporter:
            [delivery] = await receiver.has(1)
            await asyncio.sleep(0.2)
            assert (exporter.state.phase, exporter.state.behind_seconds) == ("sending", 0.0)
        assert len(receiver.deliveries) == 1
        assert delivery.ids == ids
        assert delivery.headers["content-type"] == "application/jsonl"
        assert delivery.headers["webhook-id"] == f"msg_{ids[-1]}"
        webhooks = openai.OpenAI(api_key="none").webhooks
        webhooks.verify_signature(delivery.body, delivery.headers, secret=SECRET)
        with pytest.raises(openai.InvalidWebhookSignatureError):
            webhooks.verify_signature(delivery.body + b"\n", delivery.headers, secret=SECRET)


async def test_a_batch_is_sent_until_it_is_taken_and_nothing_overtakes_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as db, receiving(500, 0, 302, None, 429) as receiver:
        first = await write_settled(db, 1, 2)
        async with _exporter(db, receiver, patience=0.3) as exporter:
            await receiver.has(2)
            await _until(exporter, "failing")
            assert exporter.state.behind_seconds > 3400
            later = await write_settled(db, 3)
            await receiver.has(6)
            await _until(exporter, "sending")
        *failed, taken = receiver.deliveries
        assert [delivery.ids for delivery in failed[:2]] == [first, first]
        assert len({delivery.headers["webhook-id"] for delivery in failed[:2]}) == 1
        assert all(delivery.ids[:2] == first for delivery in failed)
        assert taken.ids == [*first, *later]


async def test_a_backlog_goes_batch_by_batch(tmp_path: Path) -> None:
    async with opened(tmp_path) as db, receiving() as receiver:
        ids = await write_settled(db, *range(1, 2 * BATCH + 101))
        async with _exporter(db, receiver):
            deliveries = await receiver.has(3)
    assert [len(delivery.ids) for delivery in deliveries] == [BATCH, BATCH, 100]
    assert [id for delivery in deliveries for id in delivery.ids] == ids


async def test_one_gateway_sends_and_the_other_takes_over(tmp_path: Path) -> None:
    async with opened(tmp_path) as db, receiving() as ours, receiving() as theirs, AsyncExitStack() as stack:
        first = await write_settled(db, 1)
        async with _exporter(db, theirs, "b"):
            assert [one.ids for one in await theirs.has(1)] == [first]
            waiting = await stack.enter_async_context(_exporter(db, ours, "a"))
            await _until(waiting, "elsewhere")
            later = await write_settled(db, 2)
            assert [one.ids for one in await theirs.has(2)] == [first, later]
            async with asyncio.timeout(10):
                while waiting.state.oldest is not None:
                    await asyncio.sleep(0.01)
        last = await write_settled(db, 3)
        assert [one.ids for one in await ours.has(1)] == [last]


async def test_whoever_waits_for_the_turn_tells_how_far_behind_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as db, receiving(None) as receiver, receiving() as other:
        await write_settled(db, 1)
        async with _exporter(db, receiver, "a"):
            await receiver.has(1)
            async with _exporter(db, other, "b") as theirs:
                await _until(theirs, "elsewhere")
                assert theirs.state.behind_seconds > 3400
        assert other.deliveries == []


async def test_a_gateway_killed_between_post_and_cursor_sends_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as db:
        ids = await write_settled(db, 1, 2, 3)
    async with receiving() as receiver:
        settings = {"export_url": receiver.url, "export_seconds": 0.05, "lease_seconds": 0.5}
        async with started(tmp_path, {}, **settings) as gateway:

            async def kill() -> None:
                receiver.on_delivery = None
                gateway.process.kill()

            # Taken, and answered to nobody.
            receiver.on_delivery = kill
            assert await gateway.ended() == -9
        assert [delivery.ids for delivery in receiver.deliveries] == [ids]
        async with started(tmp_path, {}, **settings):
            assert [delivery.ids for delivery in await receiver.has(2)][:2] == [ids, ids]
            await asyncio.sleep(0.5)
    # At least once: a machine that holds it up for longer than its lease may send it again, but nothing else.
    assert [delivery.ids for delivery in receiver.deliveries[2:]] in ([], [ids])


async def test_readyz_tells_how_far_behind_it_is_and_no_log_the_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "specgate")
    async with opened(tmp_path) as db:
        await write_settled(db, 1)
    async with receiving(*[503] * 50) as receiver:
        exported = {"export_url": receiver.url, "export_seconds": 0.02}
        async with running(tmp_path, FakeEngine(), **exported) as gateway:
            assert gateway.parts.exporter is not None
            await _until(gateway.parts.exporter, "failing")
            async with asyncio.timeout(10):  # between two tries it is sending
                while (told := (await gateway.http.get("/readyz")).json()["export"])["phase"] != "failing":
                    await asyncio.sleep(0.005)
            assert told["detail"] == "it answered 503"
            assert told["behind_seconds"] > 3400
            receiver.answers.clear()
    logged = [record for record in caplog.records if record.name == "specgate.export"]
    assert logged
    assert "hidden" not in "".join(str(vars(record)) for record in caplog.records)


async def test_without_an_address_nothing_is_exported(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert gateway.parts.exporter is None
        assert "export" not in (await gateway.http.get("/readyz")).json()

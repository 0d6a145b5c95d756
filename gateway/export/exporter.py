"""Whose turn it is to send, from where, and how soon again.

    turn taken (or renewed) → a batch of entries after the place reached → POST → 2xx → the place moves

A gateway that is killed between POST and move leaves the place where it was: whoever has the next turn sends the
batch again. So every entry arrives at least once, and the receiver knows a repeat by its id. What keeps failing is
tried ever more slowly, and nothing overtakes it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from sqlalchemy import Row

from gateway.export.webhook import Undelivered, Webhook
from gateway.reports.entries import entry_object
from gateway.settings import Settings
from gateway.telemetry import describe
from storage import Database, StorageError
from storage.clock import database_clock
from storage.exports import MARGIN, Exports, Place, Span, Turn, last_of

log = logging.getLogger("specgate.export")
NAME = "webhook"
BATCH = 500
LONGEST_PAUSE = 60.0
PATIENCE = 2 / 3
"""Of the lease: a batch is given up before another gateway may take the turn."""


@dataclass(frozen=True, slots=True)
class ExportState:
    """How the export stands, in words that /readyz may say."""

    phase: Literal["starting", "sending", "failing", "elsewhere"]
    """elsewhere: another gateway has the turn."""
    detail: str = ""
    oldest: datetime | None = None
    """Of the entries that are due and were not taken yet."""

    @property
    def behind_seconds(self) -> float:
        """The age of the oldest entry that is due, since it was."""
        return 0.0 if self.oldest is None else max(0.0, (datetime.now(UTC) - MARGIN - self.oldest).total_seconds())


class Exporter:
    """Sends while it is entered. `every`: seconds between two looks at the ledger."""

    def __init__(self, db: Database, webhook: Webhook, owner: str, *, lease: float, every: float) -> None:
        self._db, self._webhook, self._owner = db, webhook, owner
        self._lease, self._every = timedelta(seconds=lease), every
        self.state = ExportState("starting")

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="export")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with suppress(StorageError):
            async with self._db.unit() as session:
                await Turn(session, NAME, self._owner).give_up()
        await self._webhook.close()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                has_more = await self._send_one()
                failures = 0
            except Exception as error:  # noqa: BLE001 - whatever it is, what is due stays due
                has_more = False
                failures += 1
                self._failed(error, failures)
            if not has_more:
                await asyncio.sleep(min(LONGEST_PAUSE, self._every * 2 ** max(0, failures - 1)))

    async def _send_one(self) -> bool:
        """One batch, where it is our turn; whether there is more to send now."""
        place, now = await self._take()
        is_ours = place is not None
        due = await self._due(place, now - MARGIN)
        self.state = ExportState("sending" if is_ours else "elsewhere", oldest=due[0].at if due else None)
        if not is_ours or not due:
            return False
        await self._webhook.send([entry_object(row) for row in due])
        async with self._db.unit() as session:
            is_still_ours = await Turn(session, NAME, self._owner).move(last_of(due))
        if len(due) < BATCH:
            self.state = ExportState("sending")
        return is_still_ours and len(due) == BATCH

    async def _take(self) -> tuple[Place | None, datetime]:
        async with self._db.unit() as session:
            now = datetime.fromtimestamp(await database_clock(session), UTC)
            return await Turn(session, NAME, self._owner).take(now, self._lease), now

    async def _due(self, place: Place | None, before: datetime) -> Sequence[Row[Any]]:
        """Without the turn, only the oldest: its age is all there is to tell."""
        async with self._db.view() as session:
            exports = Exports(session)
            span = Span(place or await exports.reached(NAME), before)
            return await exports.entries(span, BATCH if place else 1)

    def _failed(self, error: Exception, failures: int) -> None:
        detail = str(error) if isinstance(error, Undelivered) else type(error).__name__
        self.state = ExportState("failing", detail, self.state.oldest)
        is_known = isinstance(error, Undelivered | StorageError)
        fields = {"detail": detail, "failures": failures} | ({} if is_known else {"error": describe(error)})
        log.warning("batch not delivered", extra={"fields": fields})


@asynccontextmanager
async def exporting(settings: Settings, db: Database, owner: str) -> AsyncIterator[Exporter | None]:
    """None where there is nowhere to send to."""
    if settings.export_url is None:
        yield None
        return
    secret = settings.export_secret.get_secret_value() if settings.export_secret else None
    webhook = Webhook(settings.export_url.get_secret_value(), secret, settings.lease_seconds * PATIENCE)
    lease, every = settings.lease_seconds, settings.export_seconds
    async with Exporter(db, webhook, owner, lease=lease, every=every) as exporter:
        yield exporter

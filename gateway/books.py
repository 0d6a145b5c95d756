"""The gateway's hand on the ledger: opens in time or refuses, notes progress, settles for certain.

A write is never cut half-way: who waits may leave, the write goes on. An entry that was opened for a caller who had
left is settled as nothing used. A settlement that the database cannot take now is kept and tried again until it
does; what dies with this process is settled by the reconciler from the last checkpoint.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from gateway.errors import StorageUnavailable
from gateway.idempotency import refusal
from storage import Database, StorageError
from storage.idempotency import Claim, Idempotency
from storage.ledger import Ledger, checkpoint_entry, open_entry, open_now, settle_entry, settle_now
from storage.values import Figures, OpenEntry, Outcome, Settlement

log = logging.getLogger("specgate.books")


class Books:
    """`owner` names this process in the ledger."""

    def __init__(self, db: Database, owner: str, patience: float, retry: float = 1.0) -> None:
        self._db, self.owner = db, owner
        self._patience, self._retry = patience, retry
        self._writes: set[asyncio.Task[Any]] = set()

    async def open(self, entry: OpenEntry, claim: Claim | None = None) -> None:
        """Committed when this returns, the name it claims with it.

        Raises StorageUnavailable, within `patience`; Conflict where the name is another request's.
        """
        if claim is None and open_now(self._db, entry):
            return
        writing = self._go_on(self._open(entry, claim))
        try:
            async with asyncio.timeout(self._patience):
                await asyncio.shield(writing)
        except (StorageError, TimeoutError) as error:
            self._go_on(self._undo(writing, entry, "error"))
            raise StorageUnavailable from error
        except asyncio.CancelledError:
            self._go_on(self._undo(writing, entry, "disconnected"))
            raise

    async def checkpoint(self, entry: OpenEntry, number: int, figures: Figures) -> None:
        """Best effort: a database that is away costs the note, never the stream."""
        await asyncio.wait({self._go_on(self._checkpoint(entry, number, figures))}, timeout=self._patience)

    async def settle(self, entry: OpenEntry, settlement: Settlement) -> None:
        """Of an opened entry. Returns when it is committed, or after `patience`; then it is still being tried."""
        if not settle_now(self._db, entry, settlement):
            await asyncio.wait({self._go_on(self._settle(entry, settlement))}, timeout=self._patience)

    async def close(self, patience: float) -> None:
        """Give what is still being written a last while."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=patience)
        for task in self._writes:
            task.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _open(self, entry: OpenEntry, claim: Claim | None) -> None:
        if claim is None:
            await open_entry(self._db, entry)
            return
        async with self._db.unit() as session:
            if earlier := await Idempotency(session).claim(claim):
                raise refusal(earlier)
            await Ledger(session).open(entry)

    async def _checkpoint(self, entry: OpenEntry, number: int, figures: Figures) -> None:
        try:
            await checkpoint_entry(self._db, entry, number, figures)
        except StorageError as error:
            log.warning("checkpoint not written", extra={"fields": _told(entry.request_id, error)})

    async def _undo(self, writing: "asyncio.Task[None]", entry: OpenEntry, outcome: Outcome) -> None:
        await asyncio.wait({writing})
        if writing.exception() is None:
            await self._settle(entry, Settlement(entry.request_id, outcome, Figures()))

    async def _settle(self, entry: OpenEntry, settlement: Settlement) -> None:
        while not await self._try_to_settle(entry, settlement):
            await asyncio.sleep(self._retry)

    async def _try_to_settle(self, entry: OpenEntry, settlement: Settlement) -> bool:
        try:
            await settle_entry(self._db, entry, settlement)
        except StorageError as error:
            log.warning("settlement not written", extra={"fields": _told(settlement.request_id, error)})
            return False
        return True

    def _go_on(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task


def _told(request_id: str, error: StorageError) -> dict[str, str]:
    return {"request_id": request_id, "error": type(error).__name__}

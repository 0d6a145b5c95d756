"""The gateway's hand on the ledger: opens in time or refuses, notes progress, settles for certain.

    settle  →  the database, in time?  ──no──►  the spool, a file  ──►  the database, once it is back, or at next start

A write is never cut half-way: who waits may leave, the write goes on. An entry that was opened for a caller who had
left is settled as nothing used. What dies with this process unsettled is settled by the reconciler from the last
checkpoint.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from gateway.errors import StorageFull, from_storage
from gateway.idempotency import refusal
from storage import Database, StorageError, UnknownRequest
from storage.idempotency import Claim, Idempotency
from storage.ledger import Ledger, Row, checkpoint_row, open_row, settle_row, write_row, write_row_now
from storage.spool import Spool
from storage.values import Figures, OpenEntry, Outcome, Settlement

log = logging.getLogger("specgate.books")
REPLAY_SECONDS = 5.0
"""How long a row of the spool may take; then the database is still away."""


class Books:
    """`owner` names this process in the ledger. `retry`: seconds between looks for a database that was away."""

    def __init__(self, db: Database, owner: str, spool: Spool, patience: float, retry: float = 1.0) -> None:
        self._db, self.owner, self._spool = db, owner, spool
        self._patience, self._retry = patience, retry
        self._is_away = False
        """What is settled goes to the spool at once."""
        self._replaying: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[Any]] = set()

    @property
    def num_spooled(self) -> int:
        """Settlements that the database has not taken yet."""
        return len(self._spool.pending)

    async def recover(self) -> None:
        """What an earlier run left in the spool, before anybody settles it from its checkpoints."""
        await self._replay_once()
        if self._spool.pending:
            self._replay()

    async def open(self, entry: OpenEntry, claim: Claim | None = None) -> None:
        """Committed when this returns, the name it claims with it.

        Raises StorageUnavailable, StorageFull, within `patience`; Conflict where the name is another request's.
        """
        if self._spool.is_full:
            raise StorageFull
        if claim is None and write_row_now(self._db, open_row(entry)):
            return
        writing = self._go_on(self._open(entry, claim))
        try:
            async with asyncio.timeout(self._patience):
                await asyncio.shield(writing)
        except (StorageError, TimeoutError) as error:
            self._go_on(self._undo(writing, entry, "error"))
            raise from_storage(error) from error
        except asyncio.CancelledError:
            self._go_on(self._undo(writing, entry, "disconnected"))
            raise

    async def checkpoint(self, entry: OpenEntry, number: int, figures: Figures) -> None:
        """Best effort: a database that is away costs the note, never the stream."""
        row = checkpoint_row(entry, number, figures)
        if not write_row_now(self._db, row):
            await self._is_taken(row)

    async def settle(self, entry: OpenEntry, settlement: Settlement) -> None:
        """Of an opened entry. Durable when this returns: in the database, or in the spool after `patience`."""
        row = settle_row(entry, settlement)
        if not self._is_away and (write_row_now(self._db, row) or await self._is_taken(row)):
            return
        if not await self._spool.put(row):
            log.error("settlement kept in memory alone", extra={"fields": {"request_id": entry.request_id}})
        self._replay()

    def settle_now(self, entry: OpenEntry, settlement: Settlement) -> bool:
        """The same, committed when this returns; False where it would have to wait, and nothing was done."""
        return not self._is_away and write_row_now(self._db, settle_row(entry, settlement))

    async def close(self, patience: float) -> None:
        """Give what is still being written a last while; what the spool holds then is for the next start."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=patience)
        for task in self._writes:
            task.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)
        self._spool.close()

    async def _open(self, entry: OpenEntry, claim: Claim | None) -> None:
        if claim is None:
            await write_row(self._db, open_row(entry))
            return
        async with self._db.unit() as session:
            if earlier := await Idempotency(session).claim(claim):
                raise refusal(earlier)
            await Ledger(session).open(entry)

    async def _undo(self, writing: "asyncio.Task[None]", entry: OpenEntry, outcome: Outcome) -> None:
        """Settle as nothing used what was opened, or may have been: a lost answer does not say."""
        await asyncio.wait({writing})
        settlement = Settlement(entry.request_id, outcome, Figures())
        if writing.exception() is None:
            await self.settle(entry, settlement)
        elif isinstance(writing.exception(), StorageError):
            await self._settle_if_open(settlement)

    async def _settle_if_open(self, settlement: Settlement) -> None:
        while True:
            await asyncio.sleep(self._retry)
            try:
                async with self._db.unit() as session:
                    await Ledger(session).settle(settlement)
            except UnknownRequest:
                return
            except StorageError:
                continue
            return

    async def _is_taken(self, row: Row) -> bool:
        """False where it is not known to be in the database within `patience`."""
        writing = self._go_on(self._try(row))
        await asyncio.wait({writing}, timeout=self._patience)
        return writing.done() and not writing.cancelled() and writing.result()

    async def _try(self, row: Row) -> bool:
        try:
            if not await write_row(self._db, row):
                log.warning(
                    "another gateway wrote this entry first", extra={"fields": {"request_id": row["request_id"]}}
                )
        except Exception as error:  # noqa: BLE001 - a stream goes on without its note, and the spool has its end
            log.warning("entry not written", extra={"fields": _told(row["request_id"], error)})
            return False
        return True

    def _replay(self) -> None:
        self._is_away = True
        if self._replaying is None or self._replaying.done():
            self._replaying = self._go_on(self._replay_all())

    async def _replay_all(self) -> None:
        while self._spool.pending:
            await asyncio.sleep(self._retry)
            await self._replay_once()

    async def _replay_once(self) -> None:
        """The oldest first: it shows whether the database is back."""
        rows = self._spool.stamped()
        for part in (rows[:1], rows[1:]):
            answers = await asyncio.gather(*map(self._take, part), return_exceptions=True)
            self._is_away = any(isinstance(answer, BaseException) for answer in answers)
            if self._is_away:
                return

    async def _take(self, row: Row) -> None:
        """Raises StorageError, TimeoutError where the database is away."""
        try:
            async with asyncio.timeout(REPLAY_SECONDS):
                await write_row(self._db, row)
        except (StorageError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - one that is refused holds up no other
            log.error("settlement refused, and kept", extra={"fields": _told(row["request_id"], error)})
        else:
            self._spool.took(row["request_id"])

    def _go_on(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task


def _told(request_id: str, error: BaseException) -> dict[str, str]:
    return {"request_id": request_id, "error": type(error).__name__}

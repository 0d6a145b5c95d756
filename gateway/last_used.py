"""When keys were last used: noted now, written a little later, never on a request's way.

A database that is away costs the note; the next use of the key makes another.
"""

import asyncio
import logging
from datetime import UTC, datetime

from storage import Database, StorageError
from storage.api_keys import ApiKeys, needs_touch
from storage.values import ApiKey

log = logging.getLogger("specgate.last_used")
GATHER_SECONDS = 0.5


class LastUsed:
    """At most one write at a time, of every key used since the one before."""

    def __init__(self, db: Database, gather: float = GATHER_SECONDS) -> None:
        self._db, self._gather = db, gather
        self._used: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    def note(self, key: ApiKey) -> None:
        if not needs_touch(key, datetime.now(UTC)):
            return
        self._used.add(key.public_id)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="last used")

    async def close(self) -> None:
        """What was not written yet is lost: it is no more than a hint."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._used:
            await asyncio.sleep(self._gather)
            used, self._used = sorted(self._used), set()
            try:
                async with self._db.unit() as session:
                    await ApiKeys(session).touch(used)
            except StorageError as error:
                log.warning(
                    "last use not written", extra={"fields": {"keys": len(used), "error": type(error).__name__}}
                )

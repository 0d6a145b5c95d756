"""Settlements that the database cannot take now, durable in a file of this gateway until it does.

    ┌─ row ─┬─ row ─┬─ row ─┬ \\0 \\0 \\0 … ┐      one line of JSON each; the file has its full size from the start, so
    └───────┴───────┴───────┴─────────────┘      that a full disk takes no room from it

`pending` is what the database has not taken; once it is empty, the file is too. A row without its place in the file
(the file is full) is kept in memory alone. What a kill cut off in the middle is no line, and was never promised.
"""

import asyncio
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage.batches import Batches
from storage.models import ledger_entries

log = logging.getLogger("specgate.spool")
LINE = re.compile(rb"[^\0\n]+\n")


class Spool:
    """`syncs`: what is put survives the loss of power, not only of this process. Raises OSError when it is made."""

    def __init__(self, path: Path, size: int, syncs: bool) -> None:
        self._path, self._size, self._syncs = path, size, syncs
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(self._file, 0o600)
        self.pending: dict[str, Mapping[str, Any]] = {row["request_id"]: row for row in self._read()}
        """Request → its row, oldest first."""
        self._end = len(self._content()) + 1  # a line that was cut off stays apart from the next
        self._has_failed = False
        self._lines = Batches(self._store)
        self._reserve()

    @property
    def is_full(self) -> bool:
        """Whether the rest is to be left to those that run already."""
        return self._has_failed or self._end > self._size // 2

    async def put(self, row: Mapping[str, Any]) -> bool:
        """True once it is durable; False where it is in memory alone."""
        self.pending[row["request_id"]] = row
        kept = {name: value for name, value in row.items() if name != "at"}
        is_durable = await self._lines.add(json.dumps(kept, separators=(",", ":")).encode() + b"\n")
        self._has_failed |= not is_durable
        return is_durable

    def stamped(self) -> list[dict[str, Any]]:
        """What is pending, as rows of this moment: a settlement counts when the ledger takes it."""
        columns = ledger_entries.c.keys()
        at = datetime.now(UTC)
        return [{name: row[name] for name in row if name in columns} | {"at": at} for row in self.pending.values()]

    def took(self, request_id: str) -> None:
        """The database has it."""
        if self.pending.pop(request_id, None) is not None and not self.pending:
            os.pwrite(self._file, bytes(self._end), 0)
            self._end, self._has_failed = 0, False

    def close(self) -> None:
        """The file stays for the next start where something is pending."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if not self.pending:
            self._path.unlink(missing_ok=True)

    def _reserve(self) -> None:
        try:
            os.posix_fallocate(self._file, 0, self._size)
        except OSError as error:
            told = {"path": str(self._path), "bytes": self._size, "error": error.strerror}
            log.warning("no room could be set aside for settlements while the database is away", extra={"fields": told})

    def _content(self) -> bytes:
        return os.pread(self._file, os.fstat(self._file).st_size, 0).rstrip(b"\0")

    def _read(self) -> Iterator[dict[str, Any]]:
        for line in LINE.findall(self._content()):
            try:
                row = json.loads(line)
            except ValueError:
                log.warning("a line of the spool is cut off", extra={"fields": {"path": str(self._path)}})
            else:
                yield row

    async def _store(self, lines: Sequence[bytes]) -> list[bool]:
        """As many as there is room for; a place that failed is never used again."""
        room = self._size - self._end
        fits = [sum(map(len, lines[: number + 1])) <= room for number in range(len(lines))]
        block = b"".join(line for line, has_room in zip(lines, fits, strict=True) if has_room)
        at, self._end = self._end, self._end + len(block)
        try:
            await asyncio.to_thread(self._write, block, at) if self._syncs else self._write(block, at)
        except OSError as error:
            log.error("settlement not spooled", extra={"fields": {"error": error.strerror}})
            return [False] * len(lines)
        return fits

    def _write(self, block: bytes, at: int) -> None:
        while block:
            written = os.pwrite(self._file, block, at)
            block, at = block[written:], at + written
        if self._syncs:
            os.fdatasync(self._file)

"""aiosqlite whose statements run where they are asked for, instead of on its thread.

A hop to a thread and back costs more than a short statement does, and a transaction has a dozen of them. To the thread
goes what has to wait: BEGIN while another connection holds the write lock, COMMIT where it waits for the disk, and
whatever is asked while one of these is under way, in order. The log is written back to the file by a connection of its
own, since that waits for the disk too. For the writer alone: a report's long reads would hold up every answer.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import aiosqlite

PATIENCE = 5.0
"""Seconds to wait for the write lock."""
PAUSE = 0.005
COMMITS_A_CHECKPOINT = 256
"""Some 1,000 pages of the log, SQLite's own measure."""
PRAGMAS = ("wal_autocheckpoint=0", "busy_timeout=0")


class InlineConnection(aiosqlite.Connection):
    def __init__(self, path: str, waits_at_commit: bool) -> None:
        super().__init__(lambda: sqlite3.connect(path, timeout=0, check_same_thread=False), iter_chunk_size=64)
        self._thread.daemon = True  # a program that forgot to close it still ends
        self._path, self._waits_at_commit = path, waits_at_commit
        self._num_on_thread = self._num_commits = 0

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._num_on_thread or (self._waits_at_commit and fn.__name__ == "commit"):
            return await self._on_thread(fn, *args, **kwargs)
        if not _begins(args):
            return fn(*args, **kwargs)
        try:
            return fn(*args, **kwargs)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            return await self._on_thread(_patiently, fn, *args)

    async def commit(self) -> None:
        await super().commit()
        self._num_commits += 1
        if self._num_commits % COMMITS_A_CHECKPOINT == 0:
            asyncio.get_running_loop().run_in_executor(None, checkpoint, self._path)

    async def _on_thread(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            try:
                return fn(*args, **kwargs)
            finally:
                # Counted down here, not by who waits: a caller that was cancelled leaves it running.
                self._num_on_thread -= 1

        self._num_on_thread += 1
        return await super()._execute(run)  # type: ignore[no-untyped-call]


def _begins(args: tuple[Any, ...]) -> bool:
    return bool(args) and isinstance(args[0], str) and args[0].startswith("BEGIN")


def _patiently(fn: Callable[..., Any], *args: Any) -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fn(*args)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def checkpoint(path: str) -> None:
    """As much as readers, the writer and the disk let it, without waiting for them."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

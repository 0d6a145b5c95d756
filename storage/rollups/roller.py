"""Rolls settled rows up: each hour and each day once it is final, in order, behind a watermark.

    an hour is final    two minutes after its end: clocks differ, and a settlement is stamped before it is committed
    its sums            are written some rows a transaction, so that nothing waits for them
    the watermark       moves after the last: what lies behind it is not read, and may be written again, alike

Any number of gateways may try; a lease in the database lets one work. After a pause it goes on where it was.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from sqlalchemy import func, select

from storage.clock import Clock, database_clock
from storage.database import Database, Session
from storage.exports import MARGIN
from storage.models import ledger_entries, of_kind
from storage.rollups.rollup import Hour, RollUp, Written
from storage.rollups.rows import slices
from storage.rollups.watermark import DAY, HOUR, Watermark, Watermarks, floor
from storage.rollups.write import write

LEASE = timedelta(seconds=120)
"""Longer than one step takes: an hour of a million requests is read in some twenty seconds."""
ROWS = 100
"""In one transaction: a few milliseconds of the only writer that SQLite has."""


class Roller:
    """`owner` names this process."""

    def __init__(self, db: Database, rollup: RollUp, owner: str, clock: Clock = database_clock) -> None:
        self._db, self._rollup, self._owner, self._clock = db, rollup, owner, clock

    async def close(self) -> None:
        """Nobody need wait for the lease to run out."""
        async with self._db.unit() as session:
            await Watermarks(session).let_go(self._rollup.name, self._owner)

    async def run(self) -> int:
        """What is due now, as much as the lease allows; returns how many hours and days were written."""
        async with self._db.view() as session:
            now = datetime.fromtimestamp(await self._clock(session), UTC)
            mark = await Watermarks(session).of(self._rollup.name)
        final = floor(now - MARGIN, HOUR)
        if mark is not None and not _is_due(mark, final):
            return 0
        steps, took = 0, monotonic()
        mark = await self._take(now, final)
        while mark is not None and _is_due(mark, final):
            mark = await self._step(mark, final)
            steps += mark is not None
            if monotonic() - took > LEASE.total_seconds() / 2:
                break
        await self.close()
        return steps

    async def _take(self, now: datetime, final: datetime) -> Watermark | None:
        async with self._db.unit() as session:
            marks = Watermarks(session)
            if await marks.of(self._rollup.name) is None:
                await marks.begin(self._rollup.name, await earliest(session) or final)
            return await marks.take(self._rollup.name, self._owner, now, now + LEASE)

    async def _step(self, mark: Watermark, final: datetime) -> Watermark | None:
        """The next day or hour. None where somebody else moved the mark."""
        if mark.days + DAY <= mark.hours:
            async with self._db.view() as session:
                written = self._rollup.day(session, mark.days)
                return await self._write(written, mark, replace(mark, days=mark.days + DAY))
        new, of_hour = await self._hour(mark, final)
        return await self._write(_one_by_one(of_hour), mark, new)

    async def _hour(self, mark: Watermark, final: datetime) -> tuple[Watermark, Iterable[Written]]:
        """The first that has a row; those before it have nothing to write."""
        async with self._db.view() as session:
            first = await earliest(session, mark.hours)
            at = final if first is None else min(floor(first, HOUR), final)
            if mark.days == mark.hours and floor(at, DAY) > mark.days:
                return Watermark(floor(at, DAY), floor(at, DAY)), []
            if at >= min(final, mark.days + DAY):
                return replace(mark, hours=min(final, mark.days + DAY)), []
            hour = self._rollup.hour(at)
            await read(session, hour, self._rollup, at, at + HOUR)
        return replace(mark, hours=at + HOUR), hour.rows()

    async def _write(self, written: AsyncIterator[Written], old: Watermark, new: Watermark) -> Watermark | None:
        """The mark moves with the last of it."""
        last: list[Written] = []
        async for batch in _batches(written):
            if last:
                async with self._db.unit() as session:
                    await _write_all(session, last)
            last = batch
        async with self._db.unit() as session:
            await _write_all(session, last)
            return new if await Watermarks(session).move(self._rollup.name, old, new) else None


def _is_due(mark: Watermark, final: datetime) -> bool:
    return mark.hours < final or mark.days + DAY <= mark.hours


async def read(session: Session, hour: Hour, rollup: RollUp, start: datetime, end: datetime) -> None:
    """Every row of [start, end) into the sums, others running in between."""
    async for rows in slices(session, start, end, columns=rollup.columns):
        for row in rows:
            hour.add_row(row)


async def earliest(session: Session, since: datetime | None = None) -> datetime | None:
    """When the first settlement or adjustment was written, of all that are kept or from then on."""
    entries = ledger_entries.c
    found = []
    for kind in ("settle", "adjust"):
        statement = select(func.min(entries.at)).where(of_kind(ledger_entries, kind))
        found.append(await session.scalar(statement if since is None else statement.where(entries.at >= since)))
    return min((at for at in found if at is not None), default=None)


async def _write_all(session: Session, batch: Sequence[Written]) -> None:
    for table, rows in batch:
        await write(session, table, rows)


async def _one_by_one(written: Iterable[Written]) -> AsyncIterator[Written]:
    for one in written:
        yield one
        await asyncio.sleep(0)


async def _batches(written: AsyncIterator[Written]) -> AsyncIterator[list[Written]]:
    """Of at most ROWS rows."""
    batch: list[Written] = []
    room = ROWS
    async for table, rows in written:
        for start in range(0, len(rows), ROWS):
            piece = rows[start : start + ROWS]
            if len(piece) > room:
                yield batch
                batch, room = [], ROWS
            batch.append((table, piece))
            room -= len(piece)
    yield batch

"""The sums anew, from the rows that are kept: to the byte what they were, if they were right.

The watermark goes back first, so reports count rows until the roller has come as far again. Sums of hours whose rows
are gone stay as they are.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy import Table, delete, select

from storage.clock import Clock, database_clock
from storage.database import Database
from storage.models import EPOCH, usage_series
from storage.rollups.kept import kept_from
from storage.rollups.roller import LEASE, Roller, earliest
from storage.rollups.rollup import RollUp
from storage.rollups.watermark import DAY, HOUR, Watermark, Watermarks, ceil, floor

SCOPES, CHUNK = 10, 2 * DAY
"""Deleted in one transaction."""


class Busy(Exception):
    """Another gateway is rolling up."""


async def rebuild(
    db: Database,
    rollup: RollUp,
    owner: str,
    clock: Clock = database_clock,
    told: Callable[[datetime], None] = lambda _: None,
) -> None:
    """Back to the first hour whose rows are all there, and on to now. `told` hears how far it has come. Raises Busy."""
    roller = Roller(db, rollup, owner, clock)
    try:
        await _go_back(db, rollup, owner, clock)
        while await roller.run():
            async with db.view() as session:
                mark = await Watermarks(session).of(rollup.name)
            told(mark.hours if mark else EPOCH)
    except BaseException:
        await roller.close()
        raise


async def _go_back(db: Database, rollup: RollUp, owner: str, clock: Clock) -> None:
    async with db.unit() as session:
        now = datetime.fromtimestamp(await clock(session), UTC)
        marks = Watermarks(session)
        if await marks.of(rollup.name) is None:
            return
        mark = await marks.take(rollup.name, owner, now, now + 10 * LEASE)
        if mark is None:
            raise Busy
        first = await earliest(session) or mark.hours
        start = min(mark.hours, max(floor(first, HOUR), ceil(await kept_from(session) or EPOCH, HOUR)))
        await marks.move(rollup.name, mark, Watermark(start, min(mark.days, floor(start, DAY))))
        scopes = list(await session.scalars(select(usage_series.c.scope).distinct()))
    hours, days = rollup.tables
    for table, since in ((hours, start), (days, floor(start, DAY))):
        for first_scope in range(0, len(scopes), SCOPES):
            await _empty(db, table, scopes[first_scope : first_scope + SCOPES], since, mark.hours)


async def _empty(db: Database, table: Table, scopes: Sequence[int], since: datetime, until: datetime) -> None:
    while since < until:
        async with db.unit() as session:
            of_chunk = (table.c.scope.in_(scopes), table.c.at >= since, table.c.at < since + CHUNK)
            await session.execute(delete(table).where(*of_chunk))
        since += CHUNK

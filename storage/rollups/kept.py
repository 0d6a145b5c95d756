"""From when on settled rows are still there, so that sums can be held against them and made anew.

Who deletes rows says so first, and deletes only what `may_forget` allows; then no hour is ever half there that is
taken for whole, and none is lost that was not rolled up.
"""

from datetime import datetime

from sqlalchemy import func, select

from storage.database import Session
from storage.inserts import Upsert
from storage.models import EPOCH, MICROSECOND, meta, rollup_state
from storage.rollups.watermark import DAY, floor

NAME = "usage_rows_from"
_SAY = Upsert(meta, lambda new: {"value": new.value})


async def may_forget(session: Session, before: datetime) -> datetime:
    """`before`, or sooner: the last midnight that every roll-up has passed."""
    through = (await session.execute(select(func.min(rollup_state.c.days_through)))).scalar_one_or_none()
    return floor(min(before, through or EPOCH), DAY)


async def forget(session: Session, before: datetime) -> None:
    """Rows settled before this may be gone from now on; an earlier moment than was said changes nothing."""
    if before > (await kept_from(session) or EPOCH):
        await _SAY.run(session, [{"key": NAME, "value": str((before - EPOCH) // MICROSECOND)}])


async def kept_from(session: Session) -> datetime | None:
    """None: nothing was ever deleted."""
    value = await session.scalar(select(meta.c.value).where(meta.c.key == NAME))
    return None if value is None else EPOCH + int(value) * MICROSECOND

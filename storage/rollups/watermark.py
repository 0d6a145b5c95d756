"""How far a roll-up has come, and who is at it. The watermark moves by compare and set: whoever lost a lease without
noticing moves nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Row, or_, select, update

from storage.database import Session
from storage.inserts import insert_once
from storage.models import EPOCH, MICROSECOND, rollup_state

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_s = rollup_state.c


@dataclass(frozen=True, slots=True)
class Watermark:
    hours: datetime
    """Every hour that ends at or before this is written."""
    days: datetime
    """The same of days; never after `hours`."""


class Watermarks:
    """Of all roll-ups, in one view or unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def of(self, name: str) -> Watermark | None:
        """None: not begun."""
        row = (await self._session.execute(select(rollup_state).where(_s.name == name))).one_or_none()
        return None if row is None else _watermark(row)

    async def begin(self, name: str, at: datetime) -> None:
        """With the hour of `at`, where it has not begun."""
        times = {"hours_through": floor(at, HOUR), "days_through": floor(at, DAY)}
        await insert_once(self._session, rollup_state, {"name": name, "owner": "", "lease_until": EPOCH, **times})

    async def take(self, name: str, owner: str, now: datetime, until: datetime) -> Watermark | None:
        """For `owner` alone until then; None while it is another's, or not begun."""
        statement = (
            update(rollup_state)
            .where(_s.name == name, or_(_s.owner == owner, _s.lease_until <= now))
            .values(owner=owner, lease_until=until)
            .returning(rollup_state)
        )
        row = (await self._session.execute(statement)).one_or_none()
        return None if row is None else _watermark(row)

    async def move(self, name: str, old: Watermark, new: Watermark) -> bool:
        """False where it is no longer where it was."""
        is_old = (_s.name == name, _s.hours_through == old.hours, _s.days_through == old.days)
        statement = update(rollup_state).where(*is_old).values(hours_through=new.hours, days_through=new.days)
        return (await self._session.execute(statement)).rowcount == 1

    async def let_go(self, name: str, owner: str) -> None:
        is_ours = (_s.name == name, _s.owner == owner)
        await self._session.execute(update(rollup_state).where(*is_ours).values(owner="", lease_until=EPOCH))


def floor(at: datetime, width: timedelta) -> datetime:
    """The last multiple of `width` since 1970 UTC that is not after `at`."""
    return at - (at - EPOCH) % width


def ceil(at: datetime, width: timedelta) -> datetime:
    return floor(at + width - MICROSECOND, width)


def _watermark(row: Row[tuple[object, ...]]) -> Watermark:
    return Watermark(row.hours_through, row.days_through)

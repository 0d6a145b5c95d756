"""Who is signed in at the dashboard: a browser's token stands for the key that it was signed in with.

The token is 256 random bits, so a fast hash of it is enough, and only the hash is kept. A session ends when it was not
used for `IDLE`; whether its key is still good is the keyring's to say, each time.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, select, update

from storage.database import Session
from storage.models import dashboard_sessions

IDLE = timedelta(hours=8)
TOUCH_EVERY = timedelta(minutes=1)
_s = dashboard_sessions.c


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session that has not ended."""

    key_id: str
    needs_touch: bool
    """It was last noted as used so long ago that it is worth a write."""


class Sessions:
    """The sessions, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def open(self, token: str, key_id: str, now: datetime | None = None) -> None:
        """Takes away those that have ended, too."""
        at = now or datetime.now(UTC)
        await self._session.execute(delete(dashboard_sessions).where(_s.seen_at <= at - IDLE))
        values = {"token_hash": _hash(token), "key_id": key_id, "created_at": at, "seen_at": at}
        await self._session.execute(dashboard_sessions.insert().values(values))

    async def find(self, token: str, now: datetime | None = None) -> SignedIn | None:
        at = now or datetime.now(UTC)
        statement = select(dashboard_sessions).where(_s.token_hash == _hash(token), _s.seen_at > at - IDLE)
        row = (await self._session.execute(statement)).one_or_none()
        return None if row is None else SignedIn(row.key_id, at - row.seen_at >= TOUCH_EVERY)

    async def touch(self, token: str, now: datetime | None = None) -> None:
        """It was used now."""
        statement = update(dashboard_sessions).where(_s.token_hash == _hash(token))
        await self._session.execute(statement.values(seen_at=now or datetime.now(UTC)))

    async def close(self, token: str) -> None:
        await self._session.execute(delete(dashboard_sessions).where(_s.token_hash == _hash(token)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

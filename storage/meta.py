"""Facts about the installation as a whole, by name."""

from sqlalchemy import select

from storage.database import Session
from storage.inserts import insert_once
from storage.models import meta


class Meta:
    """The facts, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def settle_on(self, key: str, value: str) -> str:
        """The value of `key`, which is `value` if none was set before."""
        await insert_once(self._session, meta, {"key": key, "value": value})
        found = await self._session.scalar(select(meta.c.value).where(meta.c.key == key))
        return str(found)

    async def get(self, key: str) -> str | None:
        found: str | None = await self._session.scalar(select(meta.c.value).where(meta.c.key == key))
        return found

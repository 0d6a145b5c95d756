"""Which gateways live: each renews a lease, and counts the others'."""

from collections.abc import Collection

from sqlalchemy import delete, func, select

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.usage import at
from storage.models import gateways

_gateways = gateways.c
RENEW = Upsert(gateways, lambda new: {"lease_until": new.lease_until})


class Gateways:
    """The leases, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def renew(self, id: str, now: float, lease_seconds: float) -> None:
        values = {"id": id, "started_at": at(now), "lease_until": at(now + lease_seconds)}
        await RENEW.run(self._session, [values])

    async def num_live(self, now: float) -> int:
        statement = select(func.count()).select_from(gateways).where(_gateways.lease_until > at(now))
        return int(await self._session.scalar(statement) or 0)

    async def known(self) -> list[str]:
        """All that have not been forgotten, live or not."""
        return list(await self._session.scalars(select(_gateways.id)))

    async def dead(self, now: float) -> list[str]:
        statement = select(_gateways.id).where(_gateways.lease_until <= at(now))
        return list(await self._session.scalars(statement))

    async def forget(self, ids: Collection[str]) -> None:
        await self._session.execute(delete(gateways).where(_gateways.id.in_(ids)))

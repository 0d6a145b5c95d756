"""What each deployment's tokens cost: versions that are only ever added, and the one currency of all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, and_, func, select

from storage.database import Session
from storage.inserts import insert_once
from storage.meta import Meta
from storage.models import deployment_prices
from storage.money import ITEMS, Price
from storage.values.prices import PriceVersion

CURRENCY = "currency"
DEFAULT_CURRENCY = "USD"
Pinned = tuple[str | None, int | None]
"""A deployment and a version of its prices, as usage names them. What has no price costs nothing."""
_p = deployment_prices.c
_newest = select(_p.deployment_id, func.max(_p.version).label("version")).group_by(_p.deployment_id).subquery("newest")
CURRENT = select(deployment_prices).join(
    _newest, and_(_p.deployment_id == _newest.c.deployment_id, _p.version == _newest.c.version)
)


class Prices:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def current(self) -> dict[str, PriceVersion]:
        """By id of the deployment; one that is not here has no price, and costs nothing."""
        return {row.deployment_id: _version(row) for row in await self._session.execute(CURRENT)}

    async def versions(self, deployment_id: str) -> list[PriceVersion]:
        """Newest first."""
        statement = select(deployment_prices).where(_p.deployment_id == deployment_id).order_by(_p.version.desc())
        return [_version(row) for row in await self._session.execute(statement)]

    async def of(self, deployment_ids: Iterable[str | None]) -> Mapping[Pinned, Price]:
        """Every price that these ever had."""
        statement = select(deployment_prices).where(
            _p.deployment_id.in_({id for id in deployment_ids if id is not None})
        )
        found = [_version(row) for row in await self._session.execute(statement)]
        return {(one.deployment_id, one.version): one.price for one in found}

    async def add(self, deployment_id: str, price: Price, author: str, reason: str, after: int) -> PriceVersion | None:
        """The version that follows `after` (0: the first). None where somebody added it before.

        Requests that run keep the price they were admitted at.
        """
        new = PriceVersion(deployment_id, after + 1, price, author, reason, datetime.now(UTC))
        values = {"deployment_id": deployment_id, "version": new.version, **asdict(price)}
        told = {"author": author, "reason": reason, "created_at": new.created_at}
        return new if await insert_once(self._session, deployment_prices, values | told) else None

    async def currency(self, wanted: str | None) -> str:
        """What prices are in: fixed with the first of them; until then what is wanted."""
        kept = await Meta(self._session).get(CURRENCY)
        return kept or wanted or DEFAULT_CURRENCY

    async def exist(self) -> bool:
        return await self._session.scalar(select(_p.version).limit(1)) is not None

    async def fix_currency(self, wanted: str | None) -> str:
        """What prices are in from now on."""
        return await Meta(self._session).settle_on(CURRENCY, wanted or DEFAULT_CURRENCY)


def _version(row: Row[Any]) -> PriceVersion:
    price = Price(**{item: row._mapping[item] for item in ITEMS})
    return PriceVersion(row.deployment_id, row.version, price, row.author, row.reason, row.created_at)

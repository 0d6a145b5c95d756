"""What tokens cost, by model."""

from dataclasses import asdict

from sqlalchemy import select

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.values import Price
from storage.models import prices

SET = Upsert(prices, lambda new: {name: new[name] for name in ("input", "cached", "output")})


class Prices:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, model: str) -> Price:
        """A model without a price costs nothing."""
        row = (await self._session.execute(select(prices).where(prices.c.model == model))).one_or_none()
        return Price() if row is None else Price(row.input, row.cached, row.output)

    async def set(self, model: str, price: Price) -> None:
        """Requests that run keep the price they were admitted at."""
        await SET.run(self._session, [{"model": model, **asdict(price)}])

"""The limits that were set, and the prices: the database is the truth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Row, select, tuple_, update

from storage.database import Session
from storage.inserts import Upsert, insert_once
from storage.limits.values import DIMENSIONS, Limits, Price, Scope, Subject
from storage.models import limits, prices

_limits = limits.c
PRICE = Upsert(prices, lambda new: {name: new[name] for name in ("input", "cached", "output")})


@dataclass(frozen=True, slots=True)
class LimitRow:
    """`version` counts the changes; 0: nothing was ever set."""

    limits: Limits = field(default_factory=Limits)
    version: int = 0


class LimitRows:
    """The limits, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, scope: Scope, id: str) -> LimitRow:
        statement = select(limits).where(_limits.scope == scope, _limits.scope_id == id)
        row = (await self._session.execute(statement)).one_or_none()
        return LimitRow() if row is None else LimitRow(_from(row), row.version)

    async def set(self, scope: Scope, id: str, new: Limits, before: int) -> LimitRow | None:
        """None where another wrote first: `before` is the version that was read."""
        values = asdict(new) | {"updated_at": datetime.now(UTC), "version": before + 1}
        if before == 0:
            is_written = await insert_once(self._session, limits, values | {"scope": scope, "scope_id": id})
        else:
            same = (_limits.scope == scope, _limits.scope_id == id, _limits.version == before)
            is_written = (await self._session.execute(update(limits).where(*same).values(values))).rowcount == 1
        return LimitRow(new, before + 1) if is_written else None

    async def of(self, subjects: Sequence[tuple[Scope, str]]) -> tuple[Subject, ...]:
        """The subjects with their limits, in this order."""
        statement = select(limits).where(tuple_(_limits.scope, _limits.scope_id).in_(subjects))
        found = {(row.scope, row.scope_id): _from(row) for row in await self._session.execute(statement)}
        return tuple(Subject(scope, id, found.get((scope, id), Limits())) for scope, id in subjects)


class Prices:
    """What tokens cost, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, model: str) -> Price:
        """A model without a price costs nothing."""
        row = (await self._session.execute(select(prices).where(prices.c.model == model))).one_or_none()
        return Price() if row is None else Price(row.input, row.cached, row.output)

    async def set(self, model: str, price: Price) -> None:
        """Requests that run keep the price they were admitted at."""
        await PRICE.run(self._session, [{"model": model, **asdict(price)}])


def _from(row: Row[tuple[object, ...]]) -> Limits:
    return Limits(**{dimension: row._mapping[dimension] for dimension in DIMENSIONS})

"""Budgets: what running requests hold of them, and what ended ones have spent, by calendar month.

A hold becomes spending by the removal of its row, so however many try to settle it, it is spent once.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from storage.database import Session
from storage.inserts import upsert
from storage.limits.rules import month_of
from storage.limits.values import BUDGETS, Amounts, Claim, Price, Reservation, Used
from storage.models import budget_holds, budget_spent

_holds = budget_holds.c


class Budgets:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def hold(self, claim: Claim, now: float) -> None:
        needs, price = claim.needs, claim.price
        held = {"tokens": needs.monthly_tokens, "micros": needs.monthly_micros}
        prices = {"input_price": price.input, "cached_price": price.cached, "output_price": price.output}
        kept = {"id": claim.id, "owner": claim.owner, "month": month_of(now)} | held | prices
        rows = [kept | {"subject": subject.name} for subject in claim.limited_in(*BUDGETS)]
        if rows:
            await self._session.execute(budget_holds.insert(), rows)

    async def correct(self, reservation: Reservation, by: Amounts) -> None:
        if not any(reservation.claim.limited_in(*BUDGETS)):
            return
        statement = (
            update(budget_holds)
            .where(_holds.id == bindparam("claim"))
            .values(tokens=_holds.tokens + bindparam("more"), micros=_holds.micros + bindparam("cost"))
        )
        told = {"claim": reservation.claim.id, "more": by.monthly_tokens, "cost": by.monthly_micros}
        await self._session.execute(statement, told)

    async def settle(self, claim_id: str, used: Used) -> bool:
        """Spend what was used, at the price it was admitted at. False where nothing was held."""
        statement = delete(budget_holds).where(_holds.id == claim_id).returning(budget_holds)
        held = await self._session.execute(statement)
        # In one order, so that no two settlements wait for each other.
        rows = sorted((_spending(row._mapping, used) for row in held), key=lambda row: str(row["subject"]))
        if rows:
            spent = budget_spent.c
            added = upsert(
                self._session,
                budget_spent,
                lambda new: {"tokens": spent.tokens + new.tokens, "micros": spent.micros + new.micros},
            )
            await self._session.execute(added, rows)
        return bool(rows)

    async def held_by_others(self, owners: Collection[str]) -> dict[str, str]:
        """Claims that owners other than these hold, each with its owner."""
        statement = select(_holds.id, _holds.owner).where(_holds.owner.not_in(owners)).distinct()
        return {row.id: row.owner for row in await self._session.execute(statement)}


def _spending(hold: Any, used: Used) -> dict[str, Any]:
    price = Price(hold["input_price"], hold["cached_price"], hold["output_price"])
    return {"subject": hold["subject"], "month": hold["month"], "tokens": used.tokens, "micros": price.cost(used)}

"""Budgets: what running requests hold of them, and what ended ones have spent, by calendar month.

A hold becomes spending by the removal of its row, so however many try to settle it, it is spent once.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.rules import month_of
from storage.limits.values import BUDGETS, Amounts, Claim, Reservation
from storage.models import budget_holds, budget_spent
from storage.money import ITEMS, Price, Used

_holds, _spent = budget_holds.c, budget_spent.c
HOLD = budget_holds.insert()
CORRECT = (
    update(budget_holds)
    .where(_holds.id == bindparam("claim"))
    .values(tokens=_holds.tokens + bindparam("more"), micros=_holds.micros + bindparam("cost"))
)
SETTLE = delete(budget_holds).where(_holds.id == bindparam("claim")).returning(budget_holds)
SPEND = Upsert(budget_spent, lambda new: {"tokens": _spent.tokens + new.tokens, "micros": _spent.micros + new.micros})


class Budgets:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def hold(self, claim: Claim, now: float) -> None:
        if not any(claim.limited_in(*BUDGETS)):
            return
        needs, price = claim.needs, claim.price
        held = {"tokens": needs.monthly_tokens, "micros": needs.monthly_micros}
        prices = {f"{item}_price": price.of(item) for item in ITEMS}
        kept = {"id": claim.id, "owner": claim.owner, "month": month_of(now)} | held | prices
        rows = [kept | {"subject": subject.name} for subject in claim.limited_in(*BUDGETS)]
        await self._session.execute(HOLD, rows)

    async def correct(self, reservation: Reservation, by: Amounts) -> None:
        if any(reservation.claim.limited_in(*BUDGETS)):
            told = {"claim": reservation.claim.id, "more": by.monthly_tokens, "cost": by.monthly_micros}
            await self._session.execute(CORRECT, told)

    async def settle(self, claim_id: str, used: Used) -> bool:
        """Spend what was used, at the price it was admitted at. False where nothing was held."""
        held = await self._session.execute(SETTLE, {"claim": claim_id})
        # In one order, so that no two settlements wait for each other.
        rows = sorted((_spending(row._mapping, used) for row in held), key=lambda row: str(row["subject"]))
        if rows:
            await SPEND.run(self._session, rows)
        return bool(rows)

    async def held_by_others(self, owners: Collection[str]) -> dict[str, str]:
        """Claims that owners other than these hold, each with its owner."""
        statement = select(_holds.id, _holds.owner).where(_holds.owner.not_in(owners)).distinct()
        return {row.id: row.owner for row in await self._session.execute(statement)}


def _spending(hold: Any, used: Used) -> dict[str, Any]:
    rejected = hold["output_price"] if hold["rejected_price"] is None else hold["rejected_price"]
    price = Price(hold["input_price"], hold["cached_price"], hold["output_price"], rejected)
    return {"subject": hold["subject"], "month": hold["month"], "tokens": used.tokens, "micros": price.cost(used)}

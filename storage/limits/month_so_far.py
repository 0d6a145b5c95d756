"""What a subject has used this month, by the ledger: where a budget begins that is set within the month.

Requests that run at that moment hold nothing of it, and are not counted.
"""

from datetime import UTC, datetime

from sqlalchemy import BigInteger, cast, func, select

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.reaper import USED
from storage.limits.rules import month_ends, month_of
from storage.limits.values import Scope
from storage.models import budget_spent, ledger_entries, of_kind
from storage.money import FREE, Used
from storage.prices import Pinned, Prices

_entries = ledger_entries.c
BELONGS = {"tenant": _entries.tenant_id, "project": _entries.project_id, "key": _entries.key_id}
BEGIN = Upsert(budget_spent, lambda new: {"tokens": new.tokens, "micros": new.micros})


async def begin_with_month_so_far(session: Session, scope: Scope, id: str, now: float) -> None:
    """Costs are at the prices that requests were admitted at."""
    came_to = await _used(session, scope, id, now)
    prices = await Prices(session).of([deployment for deployment, _ in came_to])
    tokens = sum(used.tokens for used in came_to.values())
    micros = sum(prices.get(pinned, FREE).cost(used) for pinned, used in came_to.items())
    row = {"subject": f"{scope}:{id}", "month": month_of(now), "tokens": tokens, "micros": micros}
    await BEGIN.run(session, [row])


async def _used(session: Session, scope: Scope, id: str, now: float) -> dict[Pinned, Used]:
    first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    pinned = (_entries.deployment_id, _entries.price_version)
    statement = (
        select(*pinned, *(cast(func.sum(column), BigInteger) for column in USED))
        .where(BELONGS[scope] == id, of_kind(ledger_entries, "settle"))
        .where(_entries.at >= first, _entries.at < datetime.fromtimestamp(month_ends(now), UTC))
        .group_by(*pinned)
    )
    return {(row[0], row[1]): Used(*row[2:]) for row in await session.execute(statement)}

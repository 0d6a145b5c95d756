"""What a subject has used this month, by the ledger: where a budget begins that is set within the month.

Requests that run at that moment hold nothing of it, and are not counted.
"""

from datetime import UTC, datetime

from sqlalchemy import BigInteger, cast, func, select

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.prices import Prices
from storage.limits.rules import month_ends, month_of
from storage.limits.values import Scope, Used
from storage.models import budget_spent, ledger_entries, of_kind

_entries = ledger_entries.c
BELONGS = {"tenant": _entries.tenant_id, "project": _entries.project_id, "key": _entries.key_id}
BEGIN = Upsert(budget_spent, lambda new: {"tokens": new.tokens, "micros": new.micros})


async def begin_with_month_so_far(session: Session, scope: Scope, id: str, now: float) -> None:
    """Costs are at today's prices."""
    tokens = micros = 0
    for model, used in await _used(session, scope, id, now):
        tokens += used.tokens
        micros += (await Prices(session).get(model)).cost(used)
    row = {"subject": f"{scope}:{id}", "month": month_of(now), "tokens": tokens, "micros": micros}
    await BEGIN.run(session, [row])


async def _used(session: Session, scope: Scope, id: str, now: float) -> list[tuple[str, Used]]:
    first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    sums = [
        cast(func.sum(column), BigInteger)
        for column in (_entries.prompt_tokens, _entries.completion_tokens, _entries.cached_tokens)
    ]
    statement = (
        select(_entries.model, *sums)
        .where(BELONGS[scope] == id, of_kind(ledger_entries, "settle"))
        .where(_entries.at >= first, _entries.at < datetime.fromtimestamp(month_ends(now), UTC))
        .group_by(_entries.model)
    )
    return [(row[0], Used(*row[1:])) for row in await session.execute(statement)]

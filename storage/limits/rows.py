"""The limits that were set: the database is the truth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from sqlalchemy import RowMapping, select, tuple_, update

from storage.clock import database_clock
from storage.database import Session
from storage.inserts import insert_once
from storage.limits.month_so_far import begin_with_month_so_far
from storage.limits.values import BUDGETS, DIMENSIONS, Limits, Scope, Subject
from storage.models import limits

_limits = limits.c


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
        return LimitRow() if row is None else LimitRow(limits_of(row._mapping), row.version)

    async def set(self, scope: Scope, id: str, new: Limits, before: int) -> LimitRow | None:
        """None where another wrote first: `before` is the version that was read.

        A budget where there was none begins with what the month has used so far.
        """
        had_budget = (await self.get(scope, id)).limits.limits_any(*BUDGETS)
        values = asdict(new) | {"updated_at": datetime.now(UTC), "version": before + 1}
        if before == 0:
            is_written = await insert_once(self._session, limits, values | {"scope": scope, "scope_id": id})
        else:
            same = (_limits.scope == scope, _limits.scope_id == id, _limits.version == before)
            is_written = (await self._session.execute(update(limits).where(*same).values(values))).rowcount == 1
        if not is_written:
            return None
        if new.limits_any(*BUDGETS) and not had_budget:
            await begin_with_month_so_far(self._session, scope, id, await database_clock(self._session))
        return LimitRow(new, before + 1)

    async def of(self, subjects: Sequence[tuple[Scope, str]]) -> tuple[Subject, ...]:
        """The subjects with their limits, in this order."""
        statement = select(limits).where(tuple_(_limits.scope, _limits.scope_id).in_(subjects))
        found = {(row.scope, row.scope_id): limits_of(row._mapping) for row in await self._session.execute(statement)}
        return tuple(Subject(scope, id, found.get((scope, id), Limits())) for scope, id in subjects)


def limits_of(row: RowMapping) -> Limits:
    return Limits(**{dimension: row[dimension] for dimension in DIMENSIONS})

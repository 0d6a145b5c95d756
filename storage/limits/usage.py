"""What subjects have in use, read in one statement from the rows that stand for it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import floor
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy import union_all as union

from storage.database import Session
from storage.limits.rules import WINDOW, month_of
from storage.limits.values import BUDGETS, DIMENSIONS, Amounts, Subject, Usage
from storage.models import EPOCH, budget_holds, budget_spent, limit_leases, limit_windows

NONE: ColumnElement[int] = literal_column("-1")
ZERO: ColumnElement[int] = literal_column("0")
SUBJECTS: BindParameter[Any] = bindparam("subjects", expanding=True)


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger)


def _part(table: Any, newest: ColumnElement[Any], **amounts: ColumnElement[Any]) -> Select[Any]:
    columns = [amounts.get(dimension, ZERO).label(dimension) for dimension in DIMENSIONS]
    return select(table.c.subject, *columns, newest.label("newest")).where(table.c.subject.in_(SUBJECTS))


_leases, _windows, _holds, _spent = limit_leases.c, limit_windows.c, budget_holds.c, budget_spent.c
LEASES = (
    _part(limit_leases, NONE, concurrency=func.count())
    .where(_leases.expires_at > bindparam("at"))
    .group_by(_leases.subject)
)
WINDOWS = (
    _part(
        limit_windows,
        func.max(_windows.second),
        requests_per_minute=_sum(_windows.requests),
        input_tokens_per_minute=_sum(_windows.input_tokens),
        output_tokens_per_minute=_sum(_windows.output_tokens),
    )
    .where(_windows.second.between(bindparam("oldest"), bindparam("second")))
    .group_by(_windows.subject)
)
HOLDS = (
    _part(budget_holds, NONE, monthly_tokens=_sum(_holds.tokens), monthly_micros=_sum(_holds.micros))
    .where(_holds.month == bindparam("month"))
    .group_by(_holds.subject)
)
SPENT = _part(budget_spent, NONE, monthly_tokens=_spent.tokens, monthly_micros=_spent.micros).where(
    _spent.month == bindparam("month")
)
ALL = union(LEASES, WINDOWS, HOLDS, SPENT)
OF_TRAFFIC = union(LEASES, WINDOWS)
OF_BUDGETS = union(HOLDS, SPENT)


async def usages(
    session: Session, subjects: Sequence[Subject], now: float, statement: CompoundSelect[Any] | None = None
) -> list[Usage]:
    """One for each subject, in their order; of what they are limited in, where no statement says of what."""
    found = {subject.name: Usage() for subject in subjects}
    if statement is None:
        has_budget = any(subject.limits.limits_any(*BUDGETS) for subject in subjects)
        statement = ALL if has_budget else OF_TRAFFIC
    for row in await session.execute(statement, _parameters(list(found), now)):
        subject, *amounts, newest = row
        before = found[subject]
        found[subject] = Usage(before.amounts + Amounts(*amounts), newest if newest >= 0 else before.newest)
    return list(found.values())


def at(now: float) -> datetime:
    return EPOCH + timedelta(seconds=now)


def _parameters(names: list[str], now: float) -> dict[str, Any]:
    second = floor(now)
    return {
        "subjects": names,
        "at": at(now),
        "oldest": second - WINDOW,
        "second": second,
        "month": month_of(now),
    }

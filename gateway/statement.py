"""A tenant's bill for a calendar month (UTC). Pure.

lines (deployment × version of its prices × item)  +  adjustments made in the month  =  total
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gateway.errors import InvalidRequest
from storage.adjustments import Adjustment
from storage.bills import BillLine
from storage.money import PER

MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
FIRST_YEAR, LAST_YEAR = 1970, 9998
DIGITS = len(str(PER)) - 1


@dataclass(frozen=True, slots=True)
class Month:
    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    tenant_id: str
    month: Month
    currency: str
    lines: Sequence[BillLine]
    adjustments: Sequence[Adjustment]
    models: Mapping[str, str]
    """Deployment → what clients called it."""
    is_final: bool
    """Whether nothing can be added any more."""

    @property
    def total(self) -> int:
        return sum(one.line.micros for one in self.lines) + sum(one.micros for one in self.adjustments)


def month_of(told: str | None) -> Month:
    """Raises InvalidRequest."""
    found = MONTH.fullmatch(told or "")
    year, month = (int(found[1]), int(found[2])) if found else (0, 0)
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise InvalidRequest("Write a month as 2026-11.", "month")
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return Month(told or "", datetime(year, month, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC))


def amount(micros: int) -> str:
    """In whole units of the currency, exactly: -1500000 → -1.500000"""
    whole, rest = divmod(abs(micros), PER)
    return f"{'-' if micros < 0 else ''}{whole}.{rest:0{DIGITS}}"


def statement_object(statement: Statement, adjustments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    month = statement.month
    return {
        "object": "usage.statement",
        "organization_id": statement.tenant_id,
        "month": month.name,
        "start_time": int(month.start.timestamp()),
        "end_time": int(month.end.timestamp()),
        "is_final": statement.is_final,
        "currency": statement.currency,
        "lines": [_line(one, statement.models) for one in statement.lines],
        "adjustments": list(adjustments),
        "total_micros": statement.total,
        "total": amount(statement.total),
    }


def _line(one: BillLine, models: Mapping[str, str]) -> dict[str, Any]:
    return {
        "deployment_id": one.deployment_id,
        "model": models.get(one.deployment_id or ""),
        "price_version": one.price_version,
        "item": one.line.item,
        "tokens": one.line.tokens,
        "price": one.line.price,
        "micros": one.line.micros,
    }

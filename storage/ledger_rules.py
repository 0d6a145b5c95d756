"""What must hold of the ledger, as queries: each names the settled requests that break it.

They read settled rows; the arithmetic of `completion_tokens` is repeated here in SQL on purpose, so that a fault in
the code that bills is found by code that does not share it.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select

from storage.database import Session
from storage.entries import COPIED
from storage.models import deployment_prices, ledger_entries, of_kind
from storage.rollups.check import find_mismatches
from storage.values import Problem

_settled = ledger_entries.alias("settled")
_s = _settled.c
_extra = case(
    (_s.rejected_prediction == "billed", _s.rejected_prediction_tokens),
    (
        and_(_s.rejected_prediction == "capped", _s.rejected_prediction_tokens > _s.accepted_prediction_tokens),
        _s.accepted_prediction_tokens,
    ),
    (_s.rejected_prediction == "capped", _s.rejected_prediction_tokens),
    else_=0,
)
BROKEN: dict[str, ColumnElement[bool]] = {
    "cached tokens are part of the prompt": _s.cached_tokens > _s.prompt_tokens,
    "delivered tokens were generated": _s.delivered_tokens > _s.generated_tokens,
    "visible tokens were generated": _s.visible_tokens > _s.generated_tokens,
    "accepted prediction tokens are visible": _s.accepted_prediction_tokens > _s.visible_tokens,
    "accepted tokens were drafted": _s.accepted_tokens > _s.drafted_tokens,
    "rejected prediction tokens are positions of the prediction": (
        _s.rejected_prediction_tokens > _s.choices * _s.prediction_tokens
    ),
    "completion tokens follow the tenant's policy": _s.completion_tokens != _s.visible_tokens + _extra,
    "an answer that ended is billed as generated": and_(_s.final, _s.visible_tokens != _s.generated_tokens),
    "accepted tokens are those of the proposers": and_(_s.final, _s.accepted_tokens != _s.accepted_delivered),
    "decode tokens = steps + accepted": and_(
        _s.final, _s.generated_tokens - _s.choices_with_output != _s.steps + _s.accepted_delivered
    ),
    "a cohort was drawn with a probability": _s.cohort.is_(None) != _s.holdout_ppm.is_(None),
    "a control drafted nothing": and_(_s.cohort == "control", _s.drafted_tokens > 0),
}


async def find_problems(session: Session) -> list[Problem]:
    """Every broken rule, by request; of sums, by the hour or day that they are of."""
    queries = {
        rule: select(_s.request_id).where(of_kind(_settled, "settle"), broken) for rule, broken in BROKEN.items()
    }
    queries |= {"every entry follows an open": _without_open(), "a settle repeats its open": _changed()}
    queries |= {"a price is known": _unpriced(), "an adjustment has a reason and an author": _unexplained()}
    queries |= {f"at most one {kind}": _repeated(kind) for kind in ("open", "settle")}
    problems: list[Problem] = []
    for rule, query in queries.items():
        rows = await session.execute(query.order_by(_s.request_id))
        problems += [Problem(rule, row.request_id) for row in rows]
    return problems + await find_mismatches(session)


def _without_open() -> Select[Any]:
    opened = ledger_entries.alias("opened")
    is_open = select(opened.c.entry_id).where(opened.c.request_id == _s.request_id, of_kind(opened, "open")).exists()
    return select(_s.request_id).where(_s.kind != "open", ~is_open).distinct()


def _changed() -> Select[Any]:
    opened = ledger_entries.alias("opened")
    differs = or_(*(_s[name].is_distinct_from(opened.c[name]) for name in COPIED))
    same = and_(opened.c.request_id == _s.request_id, of_kind(opened, "open"))
    return select(_s.request_id).select_from(_settled.join(opened, same)).where(of_kind(_settled, "settle"), differs)


def _unpriced() -> Select[Any]:
    price = deployment_prices.c
    is_known = exists().where(price.deployment_id == _s.deployment_id, price.version == _s.price_version)
    return select(_s.request_id).where(of_kind(_settled, "settle"), _s.price_version.is_not(None), ~is_known)


def _unexplained() -> Select[Any]:
    missing = or_(*(func.coalesce(column, "") == "" for column in (_s.reason, _s.author)))
    return select(_s.request_id).where(of_kind(_settled, "adjust"), missing)


def _repeated(kind: str) -> Select[Any]:
    return select(_s.request_id).where(of_kind(_settled, kind)).group_by(_s.request_id).having(func.count() > 1)

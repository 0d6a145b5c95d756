"""`GET /v1/organization/usage/statement?month=2026-11`: what a tenant's month costs, line by line."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request

from gateway.api.ledger import adjustment_object
from gateway.organization import organization_of
from gateway.parts import parts_of
from gateway.query import read_query
from gateway.statement import Month, Statement, month_of, statement_object
from gateway.work import reading
from storage.adjustments import Adjustments
from storage.bills import PINNED, bill
from storage.clock import database_clock
from storage.database import Session
from storage.deployments import Deployments
from storage.exports import MARGIN
from storage.prices import Prices
from storage.usage import Usage, UsageQuery

router = APIRouter()
REPORT_SECONDS = 30.0


@router.get("/v1/organization/usage/statement")
async def statement(request: Request) -> dict[str, Any]:
    """Of the caller's tenant; an operator names another in `OpenAI-Organization`."""
    query = read_query(request.query_params.multi_items(), ("month",))
    month = month_of(query.singles.get("month"))
    async with reading(request, REPORT_SECONDS) as session:
        tenant_id = await organization_of(request, session)
        found = await _statement(session, tenant_id, month, parts_of(request).settings.currency)
    return statement_object(found, list(map(adjustment_object, found.adjustments)))


async def _statement(session: Session, tenant_id: str, month: Month, currency: str | None) -> Statement:
    prices = Prices(session)
    asked = UsageQuery(month.start, month.end, None, PINNED, tenant_ids=[tenant_id])
    rows = [row for row in await Usage(session).rows(asked) if row.requests]
    lines = bill(rows, await prices.of(_deployments(row.group["deployment_id"] for row in rows)))
    return Statement(
        tenant_id,
        month,
        await prices.currency(currency),
        lines,
        await Adjustments(session).of_tenant(tenant_id, month.start, month.end),
        await Deployments(session).names(_deployments(one.deployment_id for one in lines)),
        datetime.fromtimestamp(await database_clock(session), month.end.tzinfo) >= month.end + MARGIN,
    )


def _deployments(found: Iterable[object]) -> list[str]:
    return [id for id in found if isinstance(id, str)]

"""`GET /v1/organization/usage/entries`: settlements and adjustments one by one, in the order the ledger took them.

Only what will not change is told, so the same question always gets the same answer: up to `finalised_through`.
"""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from gateway.api.csv import csv_answer, wants_csv
from gateway.openai.organization_objects import listing
from gateway.organization import reported_organization
from gateway.query import Query, read_query
from gateway.reports.entries import COLUMNS, entry_object
from gateway.usage_query import LATEST, utc
from gateway.work import reading
from storage.clock import database_clock
from storage.database import Session
from storage.exports import MARGIN, Exports, Place, Span

router = APIRouter()
SINGLES = ("start_time", "end_time", "after", "limit", "format")
MOST = 1000


@router.get("/v1/organization/usage/entries")
async def list_entries(request: Request) -> Response:
    query = read_query(request.query_params.multi_items(), SINGLES)
    is_csv = wants_csv(request, query.one_of("format", "csv", "json"))
    limit = query.integer("limit", 1, MOST) or MOST
    async with reading(request, 30.0) as session:
        tenant_id = await reported_organization(request, session)
        span = await _span(session, query, tenant_id)
        found = await Exports(session).entries(span, limit + 1)
    entries = [entry_object(row) for row in found[:limit]]
    told = listing(entries, len(found) > limit) | {"finalised_through": int(span.before.timestamp())}
    if not is_csv:
        return JSONResponse(told)
    names = ("has_more", "last_id", "finalised_through")
    return csv_answer(entries, COLUMNS, {f"x-{name.replace('_', '-')}": _said(told[name]) for name in names})


async def _span(session: Session, query: Query, tenant_id: str | None) -> Span:
    """From `start_time`, or from after the entry that `after` names, to `end_time` or as far as all is final."""
    final = datetime.fromtimestamp(int(await database_clock(session)), UTC) - MARGIN
    start = query.integer("start_time", 0, LATEST - 2) or 0
    end = query.integer("end_time", 1, LATEST - 1)
    before = final if end is None else min(final, utc(end))
    after = Place(utc(start), "")
    if named := query.singles.get("after"):
        after = await Exports(session).place_of(named, tenant_id)
    return Span(after, before, tenant_id)


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)

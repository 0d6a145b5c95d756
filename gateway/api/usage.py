"""Usage, costs and what speculation did, in OpenAI's shape: `GET /v1/organization/usage/…` and `/costs`.

A tenant admin reads of its own tenant; an operator of the one `OpenAI-Organization` names, or of all. JSON in pages of
buckets, or the same results as CSV.
"""

import time
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from gateway.api.csv import csv_answer, wants_csv
from gateway.organization import reported_organization
from gateway.parts import parts_of
from gateway.reports.csv import flat
from gateway.reports.pages import Report
from gateway.usage_query import COMPLETIONS, COSTS, SPECULATION, ReportQuery, Words, parse_query
from gateway.usage_report import completions_report, costs_report, proposers_report, speculation_report
from gateway.work import reading
from storage.database import Session

router = APIRouter()
REPORT_SECONDS = 30.0
Read = Callable[[Session, ReportQuery, str | None], Awaitable[Report]]


@router.get("/v1/organization/usage/completions")
async def completions_usage(request: Request) -> Response:
    return await _answer(request, COMPLETIONS, completions_report)


@router.get("/v1/organization/usage/speculation")
async def speculation_usage(request: Request) -> Response:
    return await _answer(request, SPECULATION, _speculation)


@router.get("/v1/organization/costs")
async def costs(request: Request) -> Response:
    currency = parts_of(request).settings.currency

    async def read(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
        return await costs_report(session, query, tenant_id, currency)

    return await _answer(request, COSTS, read)


async def _speculation(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    read = proposers_report if "proposer" in query.group_by else speculation_report
    return await read(session, query, tenant_id)


async def _answer(request: Request, words: Words, read: Read) -> Response:
    query = parse_query(request.query_params.multi_items(), int(time.time()), words)
    async with reading(request, REPORT_SECONDS) as session:
        report = await read(session, query, await reported_organization(request, session))
    if not wants_csv(request, query.format):
        return JSONResponse(report.page())
    told = {"x-next-page": query.next_page, "x-finalised-through": report.finalised_through}
    headers = {name: str(value) for name, value in told.items() if value is not None}
    return csv_answer(report.rows(), list(flat(report.row_template)), headers)

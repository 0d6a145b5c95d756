"""The overview: what was used, what speculation gave and took, where it does not pay. Also as CSV."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from gateway.api.csv import csv_answer
from gateway.dashboard import drawings, savings
from gateway.dashboard.face import face_of
from gateway.dashboard.figures import by_drafter, figures
from gateway.dashboard.filters import ZONES, filters_of
from gateway.dashboard.routing import PageRoute
from gateway.dashboard.tenants import tenancy_of
from gateway.dashboard.visitor import admit
from gateway.parts import parts_of
from gateway.reports.csv import flat
from gateway.work import reading

router = APIRouter(route_class=PageRoute, dependencies=[Depends(admit)])
REPORT_SECONDS = 30.0


@router.get("/dashboard")
async def overview(request: Request) -> Response:
    now = datetime.now(UTC)
    filters = filters_of(request, now)
    async with reading(request, REPORT_SECONDS) as session:
        tenancy = await tenancy_of(request, session, filters.tenant)
        found = await figures(session, filters, tenancy, parts_of(request).settings.currency)
    values: dict[str, Any] = {
        "figures": found,
        "total": found.total,
        "over_time": drawings.over_time(found.series, filters.width, filters.zone),
        "proposers": [(name, drawings.look(name)) for name in drawings.proposers(found.series)],
        "positions": drawings.positions(found.total),
        "latencies": drawings.latencies(found.total),
        "saved": savings.card(found.total["savings"]),
        "filters": filters,
        "ranges": filters.ranges(now.date()),
        "tenancy": tenancy,
        "zone": filters.zone,
        "known_zones": ZONES,
        "now": now,
    }
    return face_of(request).page(request, "overview.html", **values)


@router.get("/dashboard/usage.csv")
async def usage(request: Request) -> Response:
    """The table by deployment and drafter version, with every figure there is."""
    filters = filters_of(request, datetime.now(UTC))
    async with reading(request, REPORT_SECONDS) as session:
        tenancy = await tenancy_of(request, session, filters.tenant)
        report = await by_drafter(session, filters, tenancy)
    name = f"specgate-{filters.first}-{filters.last}.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return csv_answer(report.rows(), list(flat(report.row_template)), headers)

"""Limits: what is used of them, when they let go again, where the month's budgets will end, and which are near.

An inference key sees those that apply to itself; a tenant admin every one of its tenant; an operator of any tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from gateway.auth import Principal
from gateway.dashboard.face import face_of
from gateway.dashboard.filters import ZONES, filters_of
from gateway.dashboard.forecast import Alarm, Forecast, alarm, forecast
from gateway.dashboard.routing import PageRoute
from gateway.dashboard.tenants import Tenancy, tenancy_of
from gateway.dashboard.visitor import admit
from gateway.errors import StorageUnavailable
from gateway.limits.terms import levels
from gateway.limits.told import NAMES
from gateway.parts import parts_of, principal_of
from gateway.work import reading
from storage import StorageAway
from storage.api_keys import ApiKeys
from storage.database import Session
from storage.limits.named import Named, with_limits
from storage.limits.rows import LimitRows
from storage.limits.values import BUDGETS, DIMENSIONS, Dimension, Standing
from storage.prices import Prices
from storage.projects import Projects
from storage.tenants import Tenants

router = APIRouter(route_class=PageRoute, dependencies=[Depends(admit)])


@dataclass(frozen=True, slots=True)
class Line:
    """One limit."""

    standing: Standing
    name: str
    alarm: Alarm
    resets_at: datetime | None
    forecast: Forecast | None
    is_money: bool

    @property
    def part(self) -> float:
        """Of the limit, at most 1."""
        return min(1.0, self.standing.used / self.standing.limit) if self.standing.limit else 1.0


@dataclass(frozen=True, slots=True)
class Limited:
    named: Named
    lines: Sequence[Line]


@router.get("/dashboard/limits")
async def limits(request: Request) -> Response:
    now = datetime.now(UTC)
    filters = filters_of(request, now)
    async with reading(request) as session:
        tenancy = await tenancy_of(request, session, filters.tenant, "organization.read")
        currency = await Prices(session).currency(parts_of(request).settings.currency)
        found, has_more = await _found(session, principal_of(request), tenancy)
    try:
        standings = await parts_of(request).limiter.standings([one.subject for one in found])
    except StorageAway as error:
        raise StorageUnavailable from error
    limited = [Limited(named, _lines(named, standings, now)) for named in found]
    near = [(one.named, line) for one in limited for line in one.lines if line.alarm]
    values: dict[str, Any] = {
        "limited": limited,
        "near": near,
        "has_more": has_more,
        "tenancy": tenancy,
        "filters": filters,
    }
    values |= {"zone": filters.zone, "known_zones": ZONES, "currency": currency}
    return face_of(request).page(request, "limits.html", **values)


async def _found(session: Session, principal: Principal, tenancy: Tenancy) -> tuple[list[Named], bool]:
    if not tenancy.is_own_key:
        return await with_limits(session, tenancy.tenant_id)
    subjects = await LimitRows(session).of(levels(principal))
    names = await _own_names(session, principal)
    return [
        Named(subject, name, principal.tenant_id)
        for subject, name in zip(subjects, names, strict=True)
        if subject.limits.limits_any(*DIMENSIONS)
    ], False


async def _own_names(session: Session, principal: Principal) -> list[str]:
    tenant = await Tenants(session).get(principal.tenant_id)
    project = await Projects(session, principal.tenant_id).get(principal.project_id)
    key = await ApiKeys(session).get(principal.key_id)
    return [one.name if one else "" for one in (tenant, project, key)]


def _lines(named: Named, standings: Sequence[Standing], now: datetime) -> list[Line]:
    return [_line(one, now) for one in standings if one.subject.name == named.subject.name]


def _line(standing: Standing, now: datetime) -> Line:
    dimension: Dimension = standing.dimension
    is_budget = dimension in BUDGETS
    return Line(
        standing=standing,
        name="Cost a month" if dimension == "monthly_micros" else NAMES[dimension].capitalize(),
        alarm=alarm(standing.used, standing.limit),
        resets_at=_to_the_second(now + timedelta(seconds=standing.resets_in)) if standing.resets_in else None,
        forecast=forecast(standing.used, standing.limit, now) if is_budget else None,
        is_money=dimension == "monthly_micros",
    )


def _to_the_second(at: datetime) -> datetime:
    """The nearest one: a month's end is no minute of the old month."""
    return (at + timedelta(seconds=0.5)).replace(microsecond=0)

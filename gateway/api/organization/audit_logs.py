"""/v1/organization/audit_logs: newest first, with OpenAI's filters; and, for operators, whether the chain holds.

An operator who names no tenant reads the events of all, and those of none: deployments and their prices.
"""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request

from gateway import usage_query
from gateway.errors import InvalidRequest
from gateway.openai.organization_objects import audit_object, listing
from gateway.organization import reported_organization
from gateway.parts import parts_of
from gateway.query import PAGE, Query, read_query
from gateway.secret import audit_key
from gateway.work import reading
from storage.audit import Audit
from storage.database import Session
from storage.values.audit import AuditQuery

router = APIRouter()
BOUNDS = ("gt", "gte", "lt", "lte")
SINGLES = (*PAGE, "before", "tenant_only", *(f"effective_at[{bound}]" for bound in BOUNDS))
LISTS = ("event_types", "actor_ids", "actor_emails", "project_ids", "resource_ids")
LATEST = usage_query.LATEST - 1
"""What reports may be asked for, too."""
VERIFY_SECONDS = 300.0


@router.get("/v1/organization/audit_logs")
async def list_events(request: Request) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), SINGLES, LISTS)
    query.one_of("tenant_only", "true", "false")
    async with reading(request) as session:
        tenant_id = await reported_organization(request, session)
        found, has_more = await _audit(request, session).page(_asked(query, tenant_id), query.cursor())
    return listing([audit_object(event) for event in found], has_more)


@router.get("/admin/v1/audit/verify")
async def verify(request: Request) -> dict[str, Any]:
    """Reads the whole log. The head may be kept elsewhere: a log set back as a whole no longer contains it."""
    async with reading(request, VERIFY_SECONDS) as session:
        report = await _audit(request, session).verify()
    told = {name: value for name, value in asdict(report).items() if name != "problems"}
    return {
        "object": "audit_report",
        "holds": not report.problems,
        **told,
        "problems": list(map(asdict, report.problems)),
    }


def _audit(request: Request, session: Session) -> Audit:
    return Audit(session, audit_key(parts_of(request).secret))


def _asked(query: Query, tenant_id: str | None) -> AuditQuery:
    if query.lists["actor_emails"]:
        raise InvalidRequest("Actors here are keys and have no e-mail address; use actor_ids.", "actor_emails")
    return AuditQuery(
        tenant_id=tenant_id,
        actions=query.lists["event_types"],
        actor_ids=query.lists["actor_ids"],
        project_ids=query.lists["project_ids"],
        targets=query.lists["resource_ids"],
        since=_bound(query, "gte", "gt"),
        until=_bound(query, "lt", "lte"),
    )


def _bound(query: Query, plain: str, next_second: str) -> datetime | None:
    """Whole seconds: later than one is from the next on, up to one is before the next."""
    at = query.integer(f"effective_at[{plain}]", 0, LATEST)
    after = query.integer(f"effective_at[{next_second}]", 0, LATEST - 1)
    found = [second for second in (at, None if after is None else after + 1) if second is not None]
    if not found:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(found) if plain == "gte" else min(found))

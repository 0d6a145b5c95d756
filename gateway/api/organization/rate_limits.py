"""/v1/organization/projects/{project_id}/rate_limits: a project's limits in OpenAI's shape.

Ours hold for every model together, so a project has one rate limit, of the model `*`. OpenAI's members are plain
integers: where there is no limit they say 2147483647. `max_tokens_per_1_minute` is set for input, and for output too
unless the request names that.
"""

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.conditional import match_if_given
from gateway.api.organization.found import Place, place
from gateway.errors import Conflict, NotFound
from gateway.openai.organization_objects import Object, listing
from gateway.openai.organization_schema import RateLimitUpdate
from gateway.query import PAGE, read_query
from gateway.work import changing, reading
from storage.limits.rows import LimitRow, LimitRows
from storage.limits.values import Dimension

router = APIRouter(prefix="/v1/organization/projects/{project_id}/rate_limits")
NO_LIMIT = 2**31 - 1
MEMBERS: dict[str, Dimension] = {
    "max_requests_per_1_minute": "requests_per_minute",
    "max_tokens_per_1_minute": "input_tokens_per_minute",
    "max_output_tokens_per_1_minute": "output_tokens_per_minute",
    "max_concurrent_requests": "concurrency",
    "max_tokens_per_1_month": "monthly_tokens",
}


@router.get("")
async def list_rate_limits(request: Request, project_id: str) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), (*PAGE, "before"))
    cursor = query.cursor(default=100)
    async with reading(request) as session:
        at = await place(request, session, project_id)
        row = await LimitRows(session).get("project", at.project.id)
    is_past_it = cursor.after == _id(at) or cursor.before == _id(at)
    return listing([] if is_past_it else [_object(at, row)], False)


@router.post("/{rate_limit_id}")
async def update(request: Request, project_id: str, rate_limit_id: str) -> Response:
    asked = await body(request, RateLimitUpdate)
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        if rate_limit_id != _id(at):
            raise NotFound("No such rate limit in this project.")
        rows = LimitRows(session)
        before = await rows.get("project", at.project.id)
        match_if_given(request, before.version)
        after = await rows.set("project", at.project.id, replace(before.limits, **_changes(asked)), before.version)
        if after is None:
            raise Conflict("The limits were changed at the same moment; read them again, then repeat.")
        await at.record(request, "rate_limit.updated", _id(at), _object(at, before), _object(at, after))
    return answer(_object(at, after), after.version)


def _changes(asked: RateLimitUpdate) -> dict[str, int | None]:
    told = asked.model_fields_set.intersection(MEMBERS)
    changes = {MEMBERS[name]: _limit(getattr(asked, name)) for name in told}
    if "max_tokens_per_1_minute" in told and "max_output_tokens_per_1_minute" not in told:
        changes["output_tokens_per_minute"] = changes["input_tokens_per_minute"]
    return {str(dimension): limit for dimension, limit in changes.items()}


def _limit(sent: int | None) -> int | None:
    return None if sent == NO_LIMIT else sent


def _id(at: Place) -> str:
    return f"rl-{at.project.id}"


def _object(at: Place, row: LimitRow) -> Object:
    limits = asdict(row.limits)
    told = {member: NO_LIMIT if limits[name] is None else limits[name] for member, name in MEMBERS.items()}
    return {"object": "project.rate_limit", "id": _id(at), "model": "*", **told, "version": row.version}

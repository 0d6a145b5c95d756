"""Limits, for operators: /admin/v1/limits/{scope}/{id}, where the scope is `tenant`, `project` or `key`.

All levels apply to a request. A change holds on every gateway within a second; `?dry_run=true` says what it would
come to. A member that is null is no limit, 0 lets nothing pass.
"""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from gateway.api.answers import answer
from gateway.api.conditional import etag, require_match
from gateway.api.key import standing_object
from gateway.api.merge_patch import differences, patched
from gateway.errors import NotFound, PreconditionFailed, StorageUnavailable
from gateway.openai.schema import Wire
from gateway.parts import parts_of
from gateway.query import read_query
from gateway.trail import record
from gateway.work import changing, reading
from storage import StorageAway
from storage.database import Session
from storage.limits.rows import LimitRow, LimitRows
from storage.limits.subjects import Owner, owner_of
from storage.limits.values import Limits, Scope, Subject

router = APIRouter(prefix="/admin/v1/limits")
SCOPES: dict[str, Scope] = {"tenant": "tenant", "project": "project", "key": "key"}
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]


class LimitsDocument(Wire):
    concurrency: Count | None = None
    requests_per_minute: Count | None = None
    input_tokens_per_minute: Count | None = None
    output_tokens_per_minute: Count | None = None
    monthly_tokens: Count | None = None
    monthly_micros: Count | None = None


@router.get("/{scope}/{limited_id}")
async def retrieve(request: Request, scope: str, limited_id: str) -> Response:
    async with reading(request) as session:
        owner = await _owner(session, scope, limited_id)
        row = await LimitRows(session).get(owner.scope, limited_id)
    return await _answer(request, owner, row)


@router.patch("/{scope}/{limited_id}")
async def update(request: Request, scope: str, limited_id: str) -> Response:
    raw = await request.body()
    is_dry_run = read_query(request.query_params.multi_items(), ("dry_run",)).one_of("dry_run", "true", "false")
    async with changing(request) as session:
        owner = await _owner(session, scope, limited_id)
        rows = LimitRows(session)
        before = await rows.get(owner.scope, limited_id)
        require_match(request, before.version)
        document = LimitsDocument(**asdict(before.limits))
        wanted = patched(document, raw)
        if is_dry_run == "true":
            changes = list(differences(document.model_dump(), wanted.model_dump()))
            return answer({"object": "limits.dry_run", "changes": changes}, before.version)
        after = before
        if wanted != document:
            after = await _changed(request, session, owner, before, Limits(**wanted.model_dump()))
    return await _answer(request, owner, after)


async def _changed(request: Request, session: Session, owner: Owner, before: LimitRow, new: Limits) -> LimitRow:
    rows = LimitRows(session)
    after = await rows.set(owner.scope, owner.id, new, before.version)
    if after is None:
        raise PreconditionFailed(etag((await rows.get(owner.scope, owner.id)).version))
    was, now, target = _object(owner, before), _object(owner, after), f"{owner.scope}:{owner.id}"
    whose = {"tenant_id": owner.tenant_id, "project_id": owner.project_id}
    await record(request, session, "limits.updated", target, was, now, **whose)
    return after


async def _owner(session: Session, scope: str, id: str) -> Owner:
    owner = await owner_of(session, SCOPES[scope], id) if scope in SCOPES else None
    if owner is None:
        raise NotFound("There is nothing of this id that could have limits; the scope is tenant, project or key.")
    return owner


async def _answer(request: Request, owner: Owner, row: LimitRow) -> Response:
    subject = Subject(owner.scope, owner.id, row.limits)
    try:
        standings = await parts_of(request).limiter.standings([subject])
    except StorageAway as error:
        raise StorageUnavailable from error
    told = _object(owner, row) | {"standings": [standing_object(standing) for standing in standings]}
    return answer(told, row.version)


def _object(owner: Owner, row: LimitRow) -> dict[str, Any]:
    return {"object": "limits", "scope": owner.scope, "id": owner.id, **asdict(row.limits), "version": row.version}

"""Deployments, for operators: /admin/v1/deployments. What drafts for each can be changed while it answers.

Every change names the version it changes (If-Match) and says why; `?dry_run=true` says what it would come to.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from gateway.api.answers import answer, body
from gateway.api.conditional import etag, match_if_given, require_match
from gateway.deployments.changes import (
    NewDeployment,
    Plan,
    Rollback,
    changed,
    patch_and_reason,
    reason_in,
    require_free_names,
    require_reason,
)
from gateway.deployments.document import DeploymentDocument, spec_of
from gateway.deployments.memory import estimated, measured
from gateway.deployments.model_source import SourceRefused, find
from gateway.deployments.serving import Serving
from gateway.deployments.view import facts_of, settable, version_view, view
from gateway.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from gateway.openai.organization_objects import deleted, listing
from gateway.parts import parts_of, principal_of
from gateway.query import read_query
from gateway.trail import record
from gateway.work import changing, reading
from storage import StorageError
from storage.database import Session
from storage.deployments import Deployments
from storage.values.deployments import Deployment, DrafterVersion

router = APIRouter(prefix="/admin/v1/deployments")
APPLY_SECONDS = 2.0
"""How long an answer waits for the engines to run what was asked."""
Found = tuple[Deployment, DrafterVersion]


@router.get("")
async def list_deployments(request: Request) -> dict[str, Any]:
    async with reading(request) as session:
        found = await Deployments(session).current()
    return listing([_view(request, one) for one in found], False)


@router.post("")
async def create(request: Request) -> Response:
    asked = await body(request, NewDeployment)
    wanted = await _with_model(request, asked.document, None)
    if _is_dry_run(request):
        return JSONResponse((await plan(request, None, wanted)).told())
    reason = asked.reason or reason_in(request.headers) or "Created."
    config = wanted.speculation.model_dump(mode="json")
    async with changing(request) as session:
        deployments = Deployments(session)
        require_free_names(wanted, await deployments.list())
        new = await deployments.create(spec_of(wanted), config, principal_of(request).key_id, reason)
        if new is None:
            raise Conflict(f"The name {wanted.name} is taken; choose another.", "name_taken", "name")
        found = await _found(session, new.id)
        await _record(request, session, "deployment.created", None, found, reason)
    return await _applied(request, found)


@router.get("/{deployment_id}")
async def retrieve(request: Request, deployment_id: str) -> Response:
    return _answer(request, await read_one(request, deployment_id))


@router.patch("/{deployment_id}")
async def update(request: Request, deployment_id: str) -> Response:
    patch, reason = patch_and_reason(await request.body())
    reason = reason or reason_in(request.headers)
    read = await read_one(request, deployment_id)
    require_match(request, read[0].version)
    wanted = await _with_model(request, changed(settable(*read), patch), read[0])
    if _is_dry_run(request):
        return answer((await plan(request, read, wanted)).told(), read[0].version)
    return await change(request, read, wanted, "deployment.updated", require_reason(reason))


@router.delete("/{deployment_id}")
async def delete(request: Request, deployment_id: str) -> dict[str, Any]:
    """Takes no requests from now on; its engines end when the last one is answered."""
    reason = reason_in(request.headers) or "Deleted."
    async with changing(request) as session:
        found = await _found(session, deployment_id, for_update=True)
        match_if_given(request, found[0].version)
        await Deployments(session).delete(found[0])
        await _record(request, session, "deployment.deleted", found, None, reason)
    await _follow(request)
    return deleted("deployment", deployment_id)


@router.get("/{deployment_id}/versions")
async def versions(request: Request, deployment_id: str) -> dict[str, Any]:
    """Every drafter configuration there was, the newest first."""
    async with reading(request) as session:
        await _found(session, deployment_id)
        found = await Deployments(session).versions(deployment_id)
    return listing([version_view(one) | {"speculation": dict(one.config)} for one in found], False)


@router.post("/{deployment_id}/rollback")
async def rollback(request: Request, deployment_id: str) -> Response:
    """An old drafter configuration, as a new version."""
    asked = await body(request, Rollback)
    read = await read_one(request, deployment_id)
    match_if_given(request, read[0].version)
    return await roll_back(request, read, asked)


async def roll_back(request: Request, read: Found, asked: Rollback) -> Response:
    """Raises InvalidRequest where there is no such version, PreconditionFailed as `change` does."""
    async with reading(request) as session:
        old = await Deployments(session).version(read[0].id, asked.version)
    if old is None:
        told = f"There is no version {asked.version}; there are 1 to {read[1].version}."
        raise InvalidRequest(told, "version")
    wanted = changed(settable(*read) | {"speculation": dict(old.config)}, {})
    return await change(request, read, wanted, "deployment.rolled_back", asked.reason)


async def change(request: Request, read: Found, wanted: DeploymentDocument, action: str, reason: str) -> Response:
    """Raises PreconditionFailed where somebody changed it since it was read."""
    if not Plan(settable(*read), wanted).differences:
        return _answer(request, read)
    async with changing(request) as session:
        deployments = Deployments(session)
        before = await _found(session, read[0].id, for_update=True)
        if before[0].version != read[0].version:
            raise PreconditionFailed(etag(before[0].version))
        require_free_names(wanted, [other for other in await deployments.list() if other.id != read[0].id])
        await _write(deployments, before, wanted, principal_of(request).key_id, reason)
        after = await _found(session, read[0].id)
        await _record(request, session, action, before, after, reason)
    return await _applied(request, after)


async def _write(deployments: Deployments, before: Found, wanted: DeploymentDocument, author: str, reason: str) -> None:
    if Plan(settable(*before), wanted).changes_drafters:
        config = wanted.speculation.model_dump(mode="json")
        await deployments.configure(before[0], spec_of(wanted), config, author, reason)
    else:
        await deployments.change(before[0], spec_of(wanted))


async def _with_model(request: Request, wanted: DeploymentDocument, old: Deployment | None) -> DeploymentDocument:
    """A folder by its full path. Raises InvalidRequest where there is no such model on this machine."""
    if wanted.engine_url is not None or (old is not None and old.spec.model == wanted.model):
        return wanted
    try:
        folder = await find(wanted.model, parts_of(request).settings.home)
    except SourceRefused as refusal:
        raise InvalidRequest(str(refusal), "model") from refusal
    return wanted if folder is None else wanted.model_copy(update={"model": str(folder)})


async def plan(request: Request, read: Found | None, wanted: DeploymentDocument) -> Plan:
    made = Plan(settable(*read) if read else None, wanted)
    facts = facts_of(_serving(request, read[0].id)) if read else None
    if facts is not None and facts.weights_bytes and not made.needs_load:
        return replace(made, memory=measured(facts))
    return replace(made, memory=estimated(spec_of(wanted), parts_of(request).settings.home))


async def read_one(request: Request, id: str) -> Found:
    async with reading(request) as session:
        return await _found(session, id)


async def _found(session: Session, id: str, *, for_update: bool = False) -> Found:
    deployments = Deployments(session)
    deployment = await deployments.get(id, for_update=for_update)
    version = await deployments.version(id, deployment.config_version) if deployment else None
    if deployment is None or version is None:
        raise NotFound("No such deployment.")
    return deployment, version


async def _record(
    request: Request, session: Session, action: str, before: Found | None, after: Found | None, reason: str
) -> None:
    told = [None if found is None else settable(*found) | {"version": found[0].version} for found in (before, after)]
    [target] = {found[0].id for found in (before, after) if found}
    await record(request, session, action, target, told[0], (told[1] or {}) | {"reason": reason}, tenant_id=None)


async def _applied(request: Request, found: Found) -> Response:
    """Answered when the engines of this gateway run it, or after a while."""
    await _follow(request)
    await parts_of(request).fleet.settled(found[0].id, APPLY_SECONDS)
    return _answer(request, found)


async def _follow(request: Request) -> None:
    with suppress(StorageError):  # the fleet looks again by itself
        await parts_of(request).fleet.sync()


def _answer(request: Request, found: Found) -> Response:
    return answer(_view(request, found), found[0].version)


def _view(request: Request, found: Found) -> dict[str, Any]:
    return view(*found, _serving(request, found[0].id))


def _serving(request: Request, id: str) -> Serving | None:
    return parts_of(request).fleet.servings.get(id)


def _is_dry_run(request: Request) -> bool:
    query = read_query(request.query_params.multi_items(), ("dry_run",))
    return query.one_of("dry_run", "true", "false") == "true"

"""Deployments, for operators: how each stands, what drafts for it, how that was changed and by whom.

A change is looked at before it is made, names the version that it changes, and says why. Who comes second is shown
what the first one did, with what they meant to do still in the form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import JsonValue
from starlette.responses import RedirectResponse, Response

from gateway import access
from gateway.api import deployments as api
from gateway.api.merge_patch import Document, differences
from gateway.dashboard.drafter_form import PREFIX, groups, patch, rebased
from gateway.dashboard.face import face_of
from gateway.dashboard.filters import zone_of
from gateway.dashboard.forms import form
from gateway.dashboard.routing import PageRoute
from gateway.dashboard.visitor import admit
from gateway.deployments.changes import Plan, Rollback, changed, checked
from gateway.deployments.speculation import read as understood
from gateway.deployments.view import settable, view
from gateway.errors import InvalidRequest, PreconditionFailed
from gateway.parts import parts_of, principal_of
from gateway.query import integer
from gateway.work import reading
from storage.deployments import Deployments
from storage.values.deployments import DrafterVersion

router = APIRouter(prefix="/dashboard/deployments", route_class=PageRoute, dependencies=[Depends(admit)])
DONE = {
    "saved": "Saved. Every gateway follows within a second.",
    "rolled-back": "Rolled back, as a new version. Every gateway follows within a second.",
}
VERSIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Editing:
    """What the form of a deployment shows beside what is at work."""

    wanted: Mapping[str, Any] | None = None
    """The drafter configuration in the form; None: the one at work."""
    reason: str = ""
    plan: Plan | None = None
    problem: InvalidRequest | None = None
    is_conflict: bool = False


@router.get("")
async def every(request: Request) -> Response:
    async with reading(request) as session:
        found = await Deployments(session).current()
    views = [_view(request, one) for one in found]
    return face_of(request).page(request, "deployments.html", deployments=views, zone=zone_of(request))


@router.get("/{deployment_id}")
async def one(request: Request, deployment_id: str) -> Response:
    return await _page(request, await api.read_one(request, deployment_id), Editing())


@router.post("/{deployment_id}")
async def change(request: Request, deployment_id: str) -> Response:
    sent = await form(request)
    read = await api.read_one(request, deployment_id)
    wanted, reason = patch(sent), sent.get("reason", "").strip()
    try:
        document = changed(settable(*read), {"speculation": wanted})
        _require_seen(sent, read)
        if sent.get("action") != "save":
            return await _page(request, read, Editing(wanted, reason, plan=await api.plan(request, read, document)))
        await api.change(request, read, document, "deployment.updated", checked(reason))
    except InvalidRequest as error:
        return await _page(request, read, Editing(wanted, reason, problem=error), 400)
    except PreconditionFailed:
        seen = integer("drafters", sent.get("drafters", ""), 1, VERSIONS)
        return await _conflict(request, deployment_id, wanted, seen, reason)
    return _done(deployment_id, "saved")


@router.post("/{deployment_id}/rollback")
async def roll_back(request: Request, deployment_id: str) -> Response:
    sent = await form(request)
    read = await api.read_one(request, deployment_id)
    to, reason = integer("to", sent.get("to", ""), 1, VERSIONS), sent.get("reason", "").strip()
    try:
        _require_seen(sent, read)
        await api.roll_back(request, read, Rollback(version=to, reason=checked(reason)))
    except InvalidRequest as error:
        return await _page(request, read, Editing(problem=error), 400)
    except PreconditionFailed:
        return await _page(request, await api.read_one(request, deployment_id), Editing(is_conflict=True), 412)
    return _done(deployment_id, "rolled-back")


def whole(config: Mapping[str, JsonValue]) -> Document:
    """With every setting, also those that were left at their defaults."""
    known = understood(config)
    return known.model_dump(mode="json") if known else dict(config)


def _require_seen(sent: Mapping[str, str], read: api.Found) -> None:
    """Raises PreconditionFailed where the form shows another version than the one there is."""
    if integer("version", sent.get("version", ""), 1, VERSIONS) != read[0].version:
        raise PreconditionFailed(f'"{read[0].version}"')


async def _conflict(request: Request, id: str, wanted: Document, seen: int, reason: str) -> Response:
    """What they changed of the version they saw, upon the newer one: shown before it is saved again."""
    read = await api.read_one(request, id)
    async with reading(request) as session:
        base = await Deployments(session).version(id, seen)
    now = settable(*read)
    kept = rebased(wanted, whole(base.config) if base else None, now["speculation"])
    plan = Plan(now, changed(now, {"speculation": kept}))
    shown = plan.wanted.speculation.model_dump(mode="json")
    return await _page(request, read, Editing(shown, reason, plan, is_conflict=True), 412)


async def _page(request: Request, read: api.Found, editing: Editing, status: int = 200) -> Response:
    async with reading(request) as session:
        versions = await Deployments(session).versions(read[0].id)
    principal = principal_of(request)
    now = settable(*read)["speculation"]
    values = {
        "deployment": _view(request, read),
        "groups": groups(editing.wanted or now),
        "editing": editing,
        "at_fault": editing.problem.param.removeprefix(PREFIX) if editing.problem and editing.problem.param else None,
        "history": history(versions),
        "may_edit": access.holds("deployments.write", principal.kind, principal.scopes),
        "done": DONE.get(request.query_params.get("done", "")),
        "zone": zone_of(request),
    }
    return face_of(request).page(request, "deployment.html", status, **values)


def _view(request: Request, found: api.Found) -> dict[str, Any]:
    return view(*found, parts_of(request).fleet.servings.get(found[0].id))


def _done(id: str, what: str) -> Response:
    return RedirectResponse(f"/dashboard/deployments/{id}?done={what}", 303)


@dataclass(frozen=True, slots=True)
class Entry:
    """A version, and what it changed of the one before."""

    version: DrafterVersion
    changes: list[dict[str, Any]] = field(default_factory=list)


def history(versions: list[DrafterVersion]) -> list[Entry]:
    """Newest first."""
    configs = [whole(version.config) for version in versions]
    told = [list(differences(old, new)) for new, old in pairwise(configs)]
    return [Entry(version, changes) for version, changes in zip(versions, [*told, []], strict=True)]

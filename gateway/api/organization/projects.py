"""/v1/organization/projects"""

from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.conditional import match_if_given
from gateway.api.organization.found import place
from gateway.errors import Conflict
from gateway.openai.organization_objects import listing, project_object
from gateway.openai.organization_schema import ProjectCreate, ProjectUpdate
from gateway.organization import organization_of
from gateway.query import PAGE, read_query
from gateway.trail import record
from gateway.work import changing, reading
from storage.database import Session
from storage.projects import Projects
from storage.values import Project

router = APIRouter(prefix="/v1/organization/projects")


@router.get("")
async def list_projects(request: Request) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), (*PAGE, "include_archived"))
    with_archived = query.one_of("include_archived", "true", "false") == "true"
    async with reading(request) as session:
        projects = Projects(session, await organization_of(request, session))
        found, has_more = await projects.page(query.cursor(), with_archived=with_archived)
    return listing([project_object(project) for project in found], has_more)


@router.post("")
async def create(request: Request) -> Response:
    asked = await body(request, ProjectCreate)
    async with changing(request) as session:
        project = await Projects(session, await organization_of(request, session)).create(asked.name)
        await _record(request, session, "project.created", None, project)
    return answer(project_object(project), project.version)


@router.get("/{project_id}")
async def retrieve(request: Request, project_id: str) -> Response:
    async with reading(request) as session:
        project = (await place(request, session, project_id)).project
    return answer(project_object(project), project.version)


@router.post("/{project_id}")
async def update(request: Request, project_id: str) -> Response:
    asked = await body(request, ProjectUpdate)
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        match_if_given(request, at.project.version)
        after = at.project
        if asked.name not in (None, at.project.name):
            assert asked.name is not None
            after = await Projects(session, at.tenant_id).rename(at.project, asked.name)
            await _record(request, session, "project.updated", at.project, after)
    return answer(project_object(after), after.version)


@router.post("/{project_id}/archive")
async def archive(request: Request, project_id: str) -> Response:
    """For good. Its keys are refused within a second, their open streams cut within five."""
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        match_if_given(request, at.project.version)
        if at.project.is_default:
            raise Conflict("The default project cannot be archived; its keys can be deleted.")
        after = at.project
        if at.project.archived_at is None:
            after = await Projects(session, at.tenant_id).archive(at.project)
            await _record(request, session, "project.archived", at.project, after)
    return answer(project_object(after), after.version)


async def _record(request: Request, session: Session, action: str, before: Project | None, after: Project) -> None:
    told = project_object(before) if before else None
    ids = {"tenant_id": after.tenant_id, "project_id": after.id}
    await record(request, session, action, after.id, told, project_object(after), **ids)

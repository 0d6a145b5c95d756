"""Tenants, for operators: /admin/v1/tenants. A tenant is OpenAI's organization."""

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.conditional import require_match
from gateway.api.merge_patch import patched
from gateway.errors import Conflict, NotFound
from gateway.openai.organization_objects import Object, listing, tenant_object
from gateway.openai.organization_schema import TenantCreate, TenantDocument
from gateway.parts import parts_of, principal_of
from gateway.query import PAGE, read_query
from gateway.retention import Retention
from gateway.trail import record
from gateway.work import changing, reading
from storage import StorageError, erasure
from storage.database import Session
from storage.ids import uuid7
from storage.tenants import Tenants
from storage.values import Tenant

router = APIRouter(prefix="/admin/v1/tenants")
ERASE_SECONDS = 5.0
"""How long an answer waits for what is done soon after."""


@router.get("")
async def list_tenants(request: Request) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), PAGE)
    async with reading(request) as session:
        found, has_more = await Tenants(session).page(query.cursor())
    return listing([tenant_object(tenant) for tenant in found], has_more)


@router.post("")
async def create(request: Request) -> Response:
    asked = await body(request, TenantCreate)
    id = asked.id or f"org-{uuid7()}"
    async with changing(request) as session:
        tenant = await Tenants(session).create(
            id, asked.name, asked.rejected_prediction, asked.holdout_includes_prediction
        )
        if tenant is None:
            raise Conflict(f"There is a tenant {id} already; choose another id.", "name_taken", "id")
        await _record(request, session, "tenant.created", None, tenant)
    return answer(tenant_object(tenant), tenant.version)


@router.get("/{tenant_id}")
async def retrieve(request: Request, tenant_id: str) -> Response:
    async with reading(request) as session:
        tenant = await _tenant(session, tenant_id)
    return answer(tenant_object(tenant), tenant.version)


@router.patch("/{tenant_id}")
async def update(request: Request, tenant_id: str) -> Response:
    raw = await request.body()
    async with changing(request) as session:
        before = await _tenant(session, tenant_id, for_update=True)
        require_match(request, before.version)
        _require_there(before)
        document = TenantDocument(**{name: getattr(before, name) for name in TenantDocument.model_fields})
        wanted = patched(document, raw)
        after = before
        if wanted != document:
            after = await Tenants(session).update(before, **wanted.model_dump())
            await _record(request, session, "tenant.updated", before, after)
    return answer(tenant_object(after), after.version)


@router.post("/{tenant_id}/suspend")
async def suspend(request: Request, tenant_id: str) -> Response:
    """Within a second every key of the tenant is refused; within five its open streams are cut."""
    if tenant_id == principal_of(request).tenant_id:
        raise Conflict("Your own key belongs to this tenant; suspend it with an operator key of another one.")
    async with changing(request) as session:
        before = await _tenant(session, tenant_id, for_update=True)
        after = before
        if before.suspended_at is None:
            after = await Tenants(session).suspend(before)
            await _record(request, session, "tenant.suspended", before, after)
    return answer(tenant_object(after), after.version)


@router.post("/{tenant_id}/resume")
async def resume(request: Request, tenant_id: str) -> Response:
    async with changing(request) as session:
        before = await _tenant(session, tenant_id, for_update=True)
        _require_there(before)
        after = before
        if before.suspended_at is not None:
            after = await Tenants(session).resume(before)
            await _record(request, session, "tenant.resumed", before, after)
    return answer(tenant_object(after), after.version)


@router.post("/{tenant_id}/erase")
async def erase(request: Request, tenant_id: str) -> Response:
    """For good: its names and keys are gone at once, hashes of its users and details of its audit events soon after.

    What its requests used is still counted, under its id.
    """
    if tenant_id == principal_of(request).tenant_id:
        raise Conflict("Your own key belongs to this tenant; erase it with an operator key of another one.")
    async with changing(request) as session:
        before = await _tenant(session, tenant_id, for_update=True)
        after = before
        if before.erased_at is None:
            after = await erasure.erase(session, before)
            await record(request, session, "tenant.erased", after.id, None, {"id": after.id}, tenant_id=after.id)
    parts = parts_of(request)
    with suppress(StorageError, TimeoutError):  # else the hourly look does the rest
        async with asyncio.timeout(ERASE_SECONDS):
            await Retention(parts.db, parts.settings).forget_tenant(after)
    return answer(tenant_object(after), after.version)


async def _tenant(session: Session, id: str, *, for_update: bool = False) -> Tenant:
    tenant = await Tenants(session).get(id, for_update=for_update)
    if tenant is None:
        raise NotFound("No such tenant.")
    return tenant


def _require_there(tenant: Tenant) -> None:
    if tenant.erased_at is not None:
        raise Conflict("This tenant was erased, for good; make another one.")


async def _record(request: Request, session: Session, action: str, before: Tenant | None, after: Tenant) -> None:
    told: Object | None = tenant_object(before) if before else None
    await record(request, session, action, after.id, told, tenant_object(after), tenant_id=after.id)

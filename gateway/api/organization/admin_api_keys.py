"""/v1/organization/admin_api_keys: the keys that administer a tenant; for operators also their own kind.

A tenant admin neither sees nor makes operator keys, also not in the tenant that they belong to.
"""

from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.organization.new_key import ends_at, granted, made, rotated
from gateway.errors import NotFound, PermissionDenied
from gateway.openai.organization_objects import admin_key_object, deleted, listing
from gateway.openai.organization_schema import AdminKeyCreate, KeyRotate
from gateway.organization import organization_of
from gateway.parts import principal_of
from gateway.query import PAGE, read_query
from gateway.trail import record
from gateway.work import changing, reading
from storage.api_keys import ApiKeys, KeyScope
from storage.database import Session
from storage.values import ApiKey, NewKey

router = APIRouter(prefix="/v1/organization/admin_api_keys")


@router.get("")
async def list_keys(request: Request) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), (*PAGE, "order"))
    async with reading(request) as session:
        found, has_more = await ApiKeys(session).page(await _scope(request, session), query.cursor())
    return listing([admin_key_object(key) for key in found], has_more)


@router.post("")
async def create(request: Request) -> Response:
    asked = await body(request, AdminKeyCreate)
    maker = principal_of(request)
    if asked.kind == "operator" and maker.kind != "operator":
        raise PermissionDenied("Only an operator key makes operator keys.")
    options: dict[str, Any] = {
        "scopes": granted(asked.kind, asked.scopes, maker),
        "expires_at": ends_at(asked.expires_in_seconds),
    }
    async with changing(request) as session:
        tenant_id = await organization_of(request, session)
        new = await ApiKeys(session).create(tenant_id, asked.kind, asked.name, **options)
        key = await _announced(request, session, new)
    return answer(admin_key_object(key) | {"value": new.key}, key.version)


@router.get("/{key_id}")
async def retrieve(request: Request, key_id: str) -> Response:
    async with reading(request) as session:
        key = await _key(request, session, key_id)
    return answer(admin_key_object(key), key.version)


@router.delete("/{key_id}")
async def delete(request: Request, key_id: str) -> dict[str, Any]:
    """Refused everywhere within a second."""
    async with changing(request) as session:
        key = await _key(request, session, key_id, for_update=True)
        await ApiKeys(session).revoke(key_id)
        told = admin_key_object(key)
        await record(request, session, "api_key.deleted", key_id, told, tenant_id=key.tenant_id)
    return deleted("organization.admin_api_key", key_id)


@router.post("/{key_id}/rotate")
async def rotate(request: Request, key_id: str) -> Response:
    """Another key with the same rights; the old one is good for `overlap_seconds` yet."""
    asked = await body(request, KeyRotate)
    async with changing(request) as session:
        before = await _key(request, session, key_id, for_update=True)
        new = await rotated(session, before, asked)
        told = admin_key_object(before), admin_key_object(await made(session, key_id))
        await record(request, session, "api_key.rotated", key_id, *told, tenant_id=before.tenant_id)
        key = await _announced(request, session, new)
    return answer(admin_key_object(key) | {"value": new.key}, key.version)


async def _announced(request: Request, session: Session, new: NewKey) -> ApiKey:
    key = await made(session, new.public_id)
    told = admin_key_object(key)
    await record(request, session, "api_key.created", key.public_id, None, told, tenant_id=key.tenant_id)
    return key


async def _key(request: Request, session: Session, id: str, *, for_update: bool = False) -> ApiKey:
    key = await ApiKeys(session).get(id, await _scope(request, session), for_update=for_update)
    if key is None:
        raise NotFound("No such admin key in this organization.")
    return key


async def _scope(request: Request, session: Session) -> KeyScope:
    is_operator = principal_of(request).kind == "operator"
    tenant_id = await organization_of(request, session)
    return KeyScope(tenant_id, ("tenant_admin", "operator") if is_operator else ("tenant_admin",))

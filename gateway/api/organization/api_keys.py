"""/v1/organization/projects/{project_id}/api_keys: list, look, change, end; and ours: rotate."""

from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.conditional import match_if_given
from gateway.api.organization.found import Place, place
from gateway.api.organization.new_key import ends_at, granted, made, rotated
from gateway.auth import Principal
from gateway.errors import Conflict
from gateway.openai.organization_objects import Object, deleted, key_object, listing, new_key_object
from gateway.openai.organization_schema import KeyRotate, KeyUpdate
from gateway.parts import principal_of
from gateway.query import PAGE, read_query
from gateway.work import changing, reading
from storage.api_keys import ApiKeys
from storage.service_accounts import ServiceAccounts
from storage.values import ApiKey

router = APIRouter(prefix="/v1/organization/projects/{project_id}/api_keys")
ACCESS = "owner_project_access"


@router.get("")
async def list_keys(request: Request, project_id: str) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), (*PAGE, ACCESS))
    access = query.one_of(ACCESS, "active", "inactive", "any")
    async with reading(request) as session:
        at = await place(request, session, project_id)
        found, has_more = await ApiKeys(session).page(at.keys, query.cursor())
        if access == "inactive":
            found, has_more = [], False
        owners = await ServiceAccounts(session, at.project.id).named(
            [key.service_account_id for key in found if key.service_account_id]
        )
    return listing([key_object(key, owners.get(key.service_account_id or "")) for key in found], has_more)


@router.get("/{key_id}")
async def retrieve(request: Request, project_id: str, key_id: str) -> Response:
    async with reading(request) as session:
        at = await place(request, session, project_id)
        key = await at.key(key_id)
        told = await _object(at, key)
    return answer(told, key.version)


@router.post("/{key_id}")
async def update(request: Request, project_id: str, key_id: str) -> Response:
    asked = await body(request, KeyUpdate)
    async with changing(request) as session:
        at = await place(request, session, project_id)
        before = await at.key(key_id, for_update=True)
        match_if_given(request, before.version)
        after = await ApiKeys(session).update(before, **_changes(before, asked, principal_of(request)))
        told = await _object(at, after)
        await at.record(request, "api_key.updated", key_id, await _object(at, before), told)
    return answer(told, after.version)


@router.delete("/{key_id}")
async def delete(request: Request, project_id: str, key_id: str) -> dict[str, Any]:
    """Refused within a second, its open streams cut within five."""
    async with changing(request) as session:
        at = await place(request, session, project_id)
        key = await at.key(key_id, for_update=True)
        await ApiKeys(session).revoke(key_id)
        await at.record(request, "api_key.deleted", key_id, await _object(at, key), None)
    return deleted("organization.project.api_key", key_id)


@router.post("/{key_id}/rotate")
async def rotate(request: Request, project_id: str, key_id: str) -> Response:
    """Another key with the same rights; the old one is good for `overlap_seconds` yet."""
    asked = await body(request, KeyRotate)
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        at.require_active()
        before = await at.key(key_id, for_update=True)
        match_if_given(request, before.version)
        new = await rotated(session, before, asked)
        key, old = await made(session, new.public_id), await made(session, key_id)
        told = await _object(at, before), await _object(at, old)
        await at.record(request, "api_key.rotated", key_id, *told)
        await at.record(request, "api_key.created", key.public_id, None, await _object(at, key))
    return answer(new_key_object(key, new), key.version)


def _changes(key: ApiKey, asked: KeyUpdate, maker: Principal) -> dict[str, Any]:
    """Only what was sent. An expired key stays expired."""
    told = asked.model_fields_set
    if "expires_in_seconds" in told and key.overlap_until is not None:
        raise Conflict("This key was rotated; it ends with its overlap.")
    changes: dict[str, Any] = {}
    if asked.name is not None:
        changes["name"] = asked.name
    if "expires_in_seconds" in told:
        changes["expires_at"] = ends_at(asked.expires_in_seconds)
    if "scopes" in told:
        changes["scopes"] = granted(key.kind, asked.scopes, maker)
    if "allowed_models" in told:
        changes["allowed_models"] = None if asked.allowed_models is None else sorted(set(asked.allowed_models))
    return changes


async def _object(at: Place, key: ApiKey) -> Object:
    accounts = ServiceAccounts(at.session, at.project.id)
    return key_object(key, await accounts.get(key.service_account_id) if key.service_account_id else None)

"""GET /v1/key: what the key that asks may do, and how the limits that apply to it stand."""

import time
from typing import Any

from fastapi import APIRouter, Request

from gateway import access
from gateway.auth import Principal
from gateway.errors import InvalidApiKey, StorageUnavailable
from gateway.limits.terms import levels
from gateway.parts import parts_of, principal_of
from gateway.work import reading
from storage import StorageAway
from storage.keyring import Holder, Keyring
from storage.limits.rows import LimitRows
from storage.limits.values import Standing

router = APIRouter()


@router.get("/v1/key")
async def retrieve(request: Request) -> dict[str, Any]:
    principal = principal_of(request)
    async with reading(request) as session:
        holder = await Keyring(session).get(principal.key_id)
        subjects = await LimitRows(session).of(levels(principal))
    if holder is None:
        raise InvalidApiKey
    try:
        standings = await parts_of(request).limiter.standings(subjects)
    except StorageAway as error:
        raise StorageUnavailable from error
    return _key(principal, holder) | {"limits": [standing_object(standing) for standing in standings]}


def standing_object(standing: Standing) -> dict[str, Any]:
    resets_at = time.time() + standing.resets_in if standing.resets_in else None
    return {
        "object": "limit",
        "scope": standing.subject.scope,
        "id": standing.subject.id,
        "name": standing.dimension,
        "limit": standing.limit,
        "used": standing.used,
        "remaining": standing.remaining,
        "resets_at": resets_at and round(resets_at),
    }


def _key(principal: Principal, holder: Holder) -> dict[str, Any]:
    key, own = holder.key, access.scopes_of(principal.kind)
    held = own if principal.scopes is None else [scope for scope in own if scope in principal.scopes | {"self"}]
    return {
        "object": "key",
        "id": key.public_id,
        "name": key.name,
        "kind": key.kind,
        "organization_id": principal.tenant_id,
        "project_id": principal.project_id or None,
        "scopes": list(held),
        "models": None if principal.models is None else sorted(principal.models),
        "created_at": int(key.created_at.timestamp()),
        "expires_at": None if key.ends_at is None else int(key.ends_at.timestamp()),
    }

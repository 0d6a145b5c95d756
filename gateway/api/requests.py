"""`GET /v1/usage/requests/{id}`: what one request used, how long it took, what it cost; its id is `x-request-id`.

A key sees its own requests, a tenant admin those of its tenant, an operator all. Whose it is not is told what nobody's
request is.
"""

from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Row

from gateway.auth import Principal
from gateway.errors import NotFound
from gateway.parts import parts_of, principal_of
from gateway.requests import request_object
from gateway.work import reading
from storage.prices import Prices
from storage.requests import entries_of

router = APIRouter()


@router.get("/v1/usage/requests/{request_id}")
async def retrieve(request: Request, request_id: str) -> dict[str, Any]:
    async with reading(request) as session:
        entries = await entries_of(session, request_id)
        if not entries or not _may_see(principal_of(request), entries[0]):
            raise NotFound("No such request.")
        prices = Prices(session)
        known = await prices.of([entries[0].deployment_id])
        currency = await prices.currency(parts_of(request).settings.currency)
    return request_object(entries, known, currency)


def _may_see(principal: Principal, entry: Row[Any]) -> bool:
    match principal.kind:
        case "operator":
            return True
        case "tenant_admin":
            return bool(entry.tenant_id == principal.tenant_id)
        case "inference":
            return bool(entry.key_id == principal.key_id)

"""`GET /v1/organization/usage/completions`: usage and what speculation did, for operators, in OpenAI's shape."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from gateway.auth import Principal
from gateway.errors import StorageUnavailable
from gateway.parts import parts_of, principal_of
from gateway.usage_query import parse_query
from gateway.usage_report import page
from storage import StorageAway
from storage.usage import Usage

router = APIRouter()


@router.get("/v1/organization/usage/completions")
async def completions_usage(request: Request, principal: Annotated[Principal, Depends(principal_of)]) -> dict[str, Any]:
    principal.require_operator()
    query = parse_query(request.query_params.multi_items(), int(time.time()))
    try:
        async with parts_of(request).db.view() as session:
            rows = await Usage(session).rows(query.for_storage())
    except StorageAway as error:
        raise StorageUnavailable from error
    return page(query, rows)

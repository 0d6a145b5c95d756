"""`GET /v1/organization/usage/completions`: usage and what speculation did, in OpenAI's shape.

A tenant admin reads of its own tenant; an operator of the one `OpenAI-Organization` names, or of all.
"""

import time
from typing import Any

from fastapi import APIRouter, Request

from gateway.organization import named_organization
from gateway.parts import principal_of
from gateway.usage_query import parse_query
from gateway.usage_report import page
from gateway.work import reading
from storage.usage import Usage

router = APIRouter()
REPORT_SECONDS = 30.0


@router.get("/v1/organization/usage/completions")
async def completions_usage(request: Request) -> dict[str, Any]:
    principal = principal_of(request)
    query = parse_query(request.query_params.multi_items(), int(time.time()))
    async with reading(request, REPORT_SECONDS) as session:
        named = await named_organization(request, session)
        only = named or (None if principal.kind == "operator" else principal.tenant_id)
        rows = await Usage(session).rows(query.for_storage(only))
    return page(query, rows)

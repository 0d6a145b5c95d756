"""Corrections of what a request cost, for operators: /admin/v1/requests/{id}/adjustments."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.api.answers import body
from gateway.errors import Conflict, NotFound
from gateway.openai.fields import Label
from gateway.openai.organization_objects import seconds
from gateway.openai.schema import Wire
from gateway.parts import principal_of
from gateway.trail import record
from gateway.work import changing
from storage import UnknownRequest
from storage.adjustments import Adjustment, Adjustments

router = APIRouter(prefix="/admin/v1/requests/{request_id}")
MOST = 2**53 - 1


class NewAdjustment(Wire):
    micros: Annotated[int, Field(ge=-MOST, le=MOST)]
    """Added to what the request cost; negative: given back."""
    reason: Annotated[Label, Field(min_length=1, max_length=256)]


@router.post("/adjustments")
async def adjust(request: Request, request_id: str) -> dict[str, Any]:
    """Counts in the month in which it is made. Sent twice it is made twice: look at the request before you repeat."""
    asked = await body(request, NewAdjustment)
    async with changing(request) as session:
        try:
            made = await Adjustments(session).add(request_id, asked.micros, asked.reason, principal_of(request).key_id)
        except UnknownRequest as error:
            raise NotFound("No such request.") from error
        if made is None:
            raise Conflict("The request has not ended yet; adjust it when it is settled.")
        told = adjustment_object(made)
        await record(request, session, "ledger.adjusted", made.request_id, None, told, tenant_id=made.tenant_id)
    return told


def adjustment_object(made: Adjustment) -> dict[str, Any]:
    return {
        "object": "ledger.adjustment",
        "id": made.entry_id,
        "request_id": made.request_id,
        "organization_id": made.tenant_id,
        "micros": made.micros,
        "reason": made.reason,
        "author": made.author,
        "created_at": seconds(made.at),
    }

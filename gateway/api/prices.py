"""What a deployment's tokens cost, for operators: /admin/v1/deployments/{id}/prices.

Micro-units of the installation's currency for a million tokens. A price is never changed: PUT adds a version, which
holds for requests admitted from then on, on every gateway within a second.
"""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from gateway.api.answers import answer, body
from gateway.api.conditional import etag, require_match
from gateway.deployments.changes import Reason
from gateway.errors import Conflict, NotFound, PreconditionFailed
from gateway.openai.organization_objects import seconds
from gateway.openai.schema import Wire
from gateway.parts import parts_of, principal_of
from gateway.trail import record
from gateway.work import changing, reading
from storage import StorageError
from storage.database import Session
from storage.deployments import Deployments
from storage.money import ITEMS, Price
from storage.prices import Prices
from storage.values.prices import PriceVersion

router = APIRouter(prefix="/admin/v1/deployments/{deployment_id}/prices")
Micros = Annotated[int, Field(ge=0, le=10**12)]


class PricesDocument(Wire):
    input: Micros
    cached: Micros | None = None
    """Input that was found in the prefix cache. null: as input."""
    output: Micros
    rejected: Micros | None = None
    """Rejected prediction tokens, where the tenant's policy bills them. null: as output."""

    @property
    def price(self) -> Price:
        cached = self.input if self.cached is None else self.cached
        rejected = self.output if self.rejected is None else self.rejected
        return Price(self.input, cached, self.output, rejected)


class NewPrices(PricesDocument):
    reason: Reason


@router.get("")
async def retrieve(request: Request, deployment_id: str) -> Response:
    """Those that hold, and every version there was."""
    async with reading(request) as session:
        await _require(session, deployment_id)
        return await _answer(request, session, deployment_id)


@router.put("")
async def replace(request: Request, deployment_id: str) -> Response:
    asked = await body(request, NewPrices)
    async with changing(request) as session:
        await _require(session, deployment_id)
        before = next(iter(await Prices(session).versions(deployment_id)), None)
        require_match(request, before.version if before else 0)
        if before is None or before.price != asked.price:
            await _fix_currency(request, session)
            await _add(request, session, deployment_id, before, asked.price, asked.reason)
        told = await _answer(request, session, deployment_id)
    with suppress(StorageError):  # the fleet looks again by itself
        await parts_of(request).fleet.sync()
    return told


async def _add(
    request: Request, session: Session, id: str, before: PriceVersion | None, price: Price, reason: str
) -> None:
    version = before.version if before else 0
    new = await Prices(session).add(id, price, principal_of(request).key_id, reason, version)
    if new is None:
        raise PreconditionFailed(etag(version + 1))
    was = price_object(before) if before else None
    await record(request, session, "prices.updated", id, was, price_object(new), tenant_id=None)


async def _fix_currency(request: Request, session: Session) -> None:
    wanted = parts_of(request).settings.currency
    kept = await Prices(session).fix_currency(wanted)
    if wanted and kept != wanted:
        told = f"Prices of this installation are in {kept}, but SPECGATE_CURRENCY of this gateway says {wanted}."
        raise Conflict(f"{told} Start it with {kept}.")


async def _require(session: Session, deployment_id: str) -> None:
    if await Deployments(session).get(deployment_id) is None:
        raise NotFound("No such deployment.")


async def _answer(request: Request, session: Session, deployment_id: str) -> Response:
    prices = Prices(session)
    versions = await prices.versions(deployment_id)
    newest = versions[0].version if versions else 0
    price = versions[0].price if versions else Price()
    told: dict[str, Any] = {
        "object": "deployment.prices",
        "id": deployment_id,
        "currency": await prices.currency(parts_of(request).settings.currency),
        **{item: price.of(item) for item in ITEMS},
        "version": newest,
        "history": [price_object(one) for one in versions],
    }
    return answer(told, newest)


def price_object(version: PriceVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        **{item: version.price.of(item) for item in ITEMS},
        "author": version.author,
        "reason": version.reason,
        "created_at": seconds(version.created_at),
    }

"""GET /v1/models and /v1/models/{model}: what the key may use, aliases included."""

from typing import Any

from fastapi import APIRouter, Request

from gateway.parts import parts_of, principal_of
from gateway.routing import Route

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    principal = principal_of(request)
    data = [_model(name, route) for name, route in parts_of(request).router.models(principal).items()]
    return {"object": "list", "data": data}


@router.get("/v1/models/{model:path}")
async def retrieve(request: Request, model: str) -> dict[str, Any]:
    principal = principal_of(request)
    return _model(model, parts_of(request).router.route(principal, model))


def _model(name: str, route: Route) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": route.created, "owned_by": "specgate"}

"""GET /v1/models and /v1/models/{model}: what the key may use."""

from typing import Any

from fastapi import APIRouter, Request

from gateway.parts import parts_of, principal_of
from gateway.routing import Deployment

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    principal = principal_of(request)
    data = [_model(deployment) for deployment in parts_of(request).router.available(principal)]
    return {"object": "list", "data": data}


@router.get("/v1/models/{model:path}")
async def retrieve(request: Request, model: str) -> dict[str, Any]:
    principal = principal_of(request)
    return _model(parts_of(request).router.route(principal, model))


def _model(deployment: Deployment) -> dict[str, Any]:
    return {"id": deployment.name, "object": "model", "created": deployment.created, "owned_by": "specgate"}

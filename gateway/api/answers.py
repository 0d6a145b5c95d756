"""What admin routes share: a body read strictly, and an answer with its version as ETag."""

from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.api.conditional import etag
from gateway.openai.parse import parse

M = TypeVar("M", bound=BaseModel)


async def body(request: Request, model: type[M]) -> M:
    """Raises InvalidRequest naming the member at fault. A body that is left out asks for nothing."""
    return parse(await request.body() or b"{}", model)


def answer(object: dict[str, Any], version: int) -> Response:
    return JSONResponse(object, headers={"etag": etag(version)})

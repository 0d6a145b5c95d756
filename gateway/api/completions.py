"""POST /v1/completions"""

from fastapi import APIRouter, Request, Response

from gateway.admit import respond
from gateway.openai.schema import CompletionRequest
from gateway.openai.translate import CompletionAnswer, completion_requests

router = APIRouter()


@router.post("/v1/completions")
async def create(request: Request) -> Response:
    return await respond(request, CompletionRequest, completion_requests, CompletionAnswer)

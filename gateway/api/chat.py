"""POST /v1/chat/completions"""

from fastapi import APIRouter, Request, Response

from gateway.admit import respond
from gateway.openai.schema import ChatRequest
from gateway.openai.translate import ChatAnswer, chat_requests

router = APIRouter()


@router.post("/v1/chat/completions")
async def create(request: Request) -> Response:
    return await respond(request, ChatRequest, chat_requests, ChatAnswer)

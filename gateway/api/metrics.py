"""`GET /metrics`: what Prometheus scrapes, for an operator's key or SPECGATE_METRICS_TOKEN.

The token needs no database, and both are good while the gateway drains: a scrape is wanted most when things go wrong.
"""

import asyncio
import hmac

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from gateway import access
from gateway.metrics.exposition import exposition
from gateway.metrics.state import look
from gateway.parts import Parts, parts_of

router = APIRouter()


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    parts = parts_of(request)
    await _admit(request, parts)
    state, accept = await look(parts), request.headers.get("accept", "")
    # In a thread: thousands of series take longer to write than a stream should wait.
    text, content_type = await asyncio.to_thread(exposition, parts.metrics.source, state, accept)
    return Response(text, headers={"content-type": content_type})


async def _admit(request: Request, parts: Parts) -> None:
    """Raises InvalidApiKey, PermissionDenied, StorageUnavailable."""
    if not _is_scraper(request.headers, parts):
        principal = await parts.authenticator.authenticate(request.headers)
        access.require(request.method, request.scope["route"].path, principal.kind, principal.scopes)


def _is_scraper(headers: Headers, parts: Parts) -> bool:
    token = parts.settings.metrics_token
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    if token is None or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(sent.strip().encode("utf-8", "surrogatepass"), token.get_secret_value().encode())

"""Who may speak to this worker: whoever holds the shared secret and speaks the same protocol."""

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from inference.protocol import PROTOCOL_VERSION, Failure
from inference.server.response import failure_response

OPEN_PATHS = frozenset({"/livez"})
UNVERSIONED_PATHS = OPEN_PATHS | {"/metrics"}
"""A metrics collector knows the secret, but no protocol."""


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        failure = self._refusal(scope) if scope["type"] == "http" else None
        await (failure_response(failure) if failure else self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Failure | None:
        path, headers = scope["path"], Headers(scope=scope)
        if path not in OPEN_PATHS and not hmac.compare_digest(_bytes(headers.get("authorization")), self._expected):
            told = "The worker's secret is missing or wrong. Give gateway and worker the same SPECGATE_WORKER_SECRET."
            return Failure(status=401, code="wrong_secret", message=told)
        spoken = headers.get("x-specgate-protocol", "none")
        if path not in UNVERSIONED_PATHS and spoken != str(PROTOCOL_VERSION):
            told = f"This worker speaks protocol {PROTOCOL_VERSION}, the request protocol {spoken}: run one release."
            return Failure(status=400, code="protocol_mismatch", message=told)
        return None


def _bytes(header: str | None) -> bytes:
    return (header or "").encode("latin-1")

"""`Idempotency-Key`: a client's own name for a request, so that none is run and billed twice.

For 24 hours a repeat is answered with 409 and told what became of the first; clients do not try a 409 with
`x-should-retry: false` again. Answers are not replayed: no output is stored.
"""

import hmac
import re
from hashlib import sha256

from starlette.requests import Request

from gateway.auth import Principal
from gateway.errors import Conflict, InvalidRequest
from gateway.secret import subkey
from gateway.telemetry import request_id
from storage.idempotency import Claim, Earlier

HEADER = "Idempotency-Key"
NAME = re.compile(r"[\x20-\x7e]{1,255}")


def claim_of(request: Request, principal: Principal, body: bytes, secret: bytes) -> Claim | None:
    """None without the header. Raises InvalidRequest."""
    name = request.headers.get(HEADER)
    if name is None:
        return None
    if not NAME.fullmatch(name):
        raise InvalidRequest(f"Invalid {HEADER}: use 1 to 255 printable ASCII characters.", HEADER)
    key = subkey(secret, b"idempotency")
    return Claim(
        key_id=principal.key_id,
        route=request.url.path,
        name_hash=hmac.new(key, b"name\0" + name.encode(), sha256).hexdigest(),
        body_hash=hmac.new(key, b"body\0" + body, sha256).hexdigest(),
        request_id=request_id(request.scope),
    )


def refusal(earlier: Earlier) -> Conflict:
    """What a repeat is told."""
    match earlier.state:
        case "other_body":
            message = f"This {HEADER} was used with another body, by request {earlier.request_id}; use a new one."
            return Conflict(message, "idempotency_key_reused", HEADER)
        case "running":
            message = f"Request {earlier.request_id} with this {HEADER} is still running."
            return Conflict(message, "idempotency_in_progress", HEADER)
        case "ended":
            used = f"{earlier.prompt_tokens} prompt and {earlier.completion_tokens} completion tokens"
            message = (
                f"Request {earlier.request_id} with this {HEADER} has ended ({earlier.outcome}; {used}, in the usage "
                "report). Answers are not kept. To run it again, use a new key."
            )
            return Conflict(message, "idempotency_key_used", HEADER)

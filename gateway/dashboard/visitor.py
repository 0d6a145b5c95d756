"""Who looks at a page: the browser's token, the session that it stands for, the key that was signed in with.

The key is looked up each time, so that one that was revoked shows nothing more. Every visitor has a token, before
signing in too: the tokens of forms derive from it, and no other site can make a browser send it.
"""

import hmac
import re
import secrets
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from gateway import access
from gateway.errors import InvalidApiKey, PermissionDenied
from gateway.parts import parts_of
from gateway.query import refuse_nul
from gateway.secret import subkey
from gateway.work import changing, reading
from storage.sessions import Sessions

COOKIE = "specgate_session"
PATH = "/dashboard"
TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
STALE = (
    "This form does not belong to your session: it is older than your last sign-in, or came from elsewhere, or the "
    "browser keeps no cookies. Open the page again and repeat."
)


async def admit(request: Request) -> None:
    """Before any page that needs a key. Raises InvalidApiKey where nobody is signed in, PermissionDenied."""
    parts = parts_of(request)
    parts.drain.refuse_new()
    refuse_nul(request.scope)
    key_id = await _signed_in(request)
    if key_id is None:
        raise InvalidApiKey
    principal = await parts.authenticator.of_key(key_id)
    access.require(request.method, request.scope["route"].path, principal.kind, principal.scopes)
    request.state.principal = principal


def token_of(request: Request) -> str:
    """Drawn now where the browser sent none."""
    if not hasattr(request.state, "token"):
        sent = request.cookies.get(COOKIE, "")
        request.state.token = sent if TOKEN.fullmatch(sent) else secrets.token_urlsafe(32)
    token: str = request.state.token
    return token


def form_token(request: Request) -> str:
    key = subkey(parts_of(request).secret, b"csrf")
    return hmac.new(key, token_of(request).encode(), sha256).hexdigest()


def require_form_token(request: Request, sent: str) -> None:
    """Raises PermissionDenied."""
    if not hmac.compare_digest(sent.encode(), form_token(request).encode()):
        raise PermissionDenied(STALE)


async def sign_in(request: Request, key_id: str) -> None:
    """Under a new token, so that none which was known before stands for the key."""
    before, request.state.token = token_of(request), secrets.token_urlsafe(32)
    async with changing(request) as session:
        await Sessions(session).close(before)
        await Sessions(session).open(request.state.token, key_id)


async def sign_out(request: Request) -> None:
    before, request.state.token = token_of(request), secrets.token_urlsafe(32)
    async with changing(request) as session:
        await Sessions(session).close(before)


def keep_token(request: Request, response: Response) -> None:
    """A cookie that no script reads and no other site sends; over TLS, also where a proxy ends it, never without."""
    if request.cookies.get(COOKIE) == token_of(request):
        return
    is_tls = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(COOKIE, token_of(request), path=PATH, secure=is_tls, httponly=True, samesite="strict")


async def _signed_in(request: Request) -> str | None:
    """The key's public id."""
    token = token_of(request)
    async with reading(request) as session:
        found = await Sessions(session).find(token)
    if found is not None and found.needs_touch:
        async with changing(request) as session:
            await Sessions(session).touch(token)
    return found.key_id if found else None

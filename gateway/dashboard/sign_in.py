"""Signing in with a key, and out again. A key is tried a few times a minute; what is wrong with one is never said."""

import re

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from gateway.dashboard import visitor
from gateway.dashboard.attempts import Attempts
from gateway.dashboard.face import face_of
from gateway.dashboard.forms import form
from gateway.dashboard.routing import PageRoute
from gateway.errors import ApiError, InvalidApiKey, RateLimited, TenantSuspended
from gateway.parts import parts_of
from storage.key_format import parse_key

router = APIRouter(route_class=PageRoute)
with_key = APIRouter(route_class=PageRoute, dependencies=[Depends(visitor.admit)])
PLACE = re.compile(r"/dashboard(?:[/?][!-~]*)?")
"""Where one may be led after signing in: nowhere else than here."""
WRONG = "No live key reads so. Paste the whole key, as sk-sg-…; one that was revoked or has expired opens nothing."


@router.get("/dashboard/sign-in")
async def show(request: Request) -> Response:
    return _page(request, 200, request.query_params.get("next", ""))


@router.post("/dashboard/sign-in")
async def sign_in(request: Request) -> Response:
    parts_of(request).drain.refuse_new()
    fields = await form(request)
    key, place = fields.get("key", "").strip(), fields.get("next", "")
    address, parsed = request.client.host if request.client else "", parse_key(key)
    attempts: Attempts = request.app.state.attempts
    key_id = parsed.public_id if parsed else ""
    try:
        attempts.begin(address, key_id)
        principal = await parts_of(request).authenticator.authenticate({"x-api-key": key})
    except (InvalidApiKey, RateLimited, TenantSuspended) as error:
        return _refused(request, error, place)
    attempts.succeeded(address, key_id)
    await visitor.sign_in(request, principal.key_id)
    return RedirectResponse(_place(place), 303)


@with_key.post("/dashboard/sign-out")
async def sign_out(request: Request) -> Response:
    await form(request)
    await visitor.sign_out(request)
    return RedirectResponse("/dashboard/sign-in", 303)


def _refused(request: Request, error: ApiError, place: str) -> Response:
    told = WRONG if isinstance(error, InvalidApiKey) else error.message
    response = _page(request, error.status, place, told)
    if "retry-after" in error.headers:
        response.headers["retry-after"] = error.headers["retry-after"]
    return response


def _page(request: Request, status: int, place: str, problem: str | None = None) -> Response:
    return face_of(request).page(request, "sign_in.html", status, next=_place(place), notice=None, problem=problem)


def _place(asked: str) -> str:
    return asked if PLACE.fullmatch(asked) else "/dashboard"

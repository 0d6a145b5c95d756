"""The face of all pages: templates, styles, and headers under which a page fetches from here alone and runs nothing."""

import hashlib
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway import access
from gateway.dashboard import words
from gateway.dashboard.visitor import form_token, keep_token
from gateway.telemetry import request_id

POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ASSETS = {"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
NAVIGATION = (
    ("/dashboard", "Overview"),
    ("/dashboard/deployments", "Deployments"),
    ("/dashboard/limits", "Limits"),
)


class Face:
    """Read once, when the application is built."""

    def __init__(self) -> None:
        self.assets = {name: (files(__package__) / "assets" / name).read_bytes() for name in ASSETS}
        self.version = hashlib.sha256(b"".join(self.assets.values())).hexdigest()[:12]
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(words.FILTERS)

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        principal = getattr(request.state, "principal", None)
        shown = {
            "principal": principal,
            "navigation": [one for one in NAVIGATION if principal and _may_open(principal, one[0])],
            "here": request.url.path,
            "carried": _carried(request),
            "csrf": form_token(request),
            "version": self.version,
            "request_id": request_id(request.scope),
        }
        return HTMLResponse(self._environment.get_template(template).render(shown | values), status)

    def asset(self, name: str) -> Response:
        """Its address names its content, so that it may be kept."""
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self.assets[name], media_type=ASSETS[name], headers=headers)


def face_of(request: Request) -> Face:
    face = request.app.state.face
    assert isinstance(face, Face)
    return face


def guarded(request: Request, response: Response) -> Response:
    """What every answer of the dashboard says to the browser."""
    response.headers.update(HEADERS)
    if "cache-control" not in response.headers:
        response.headers["cache-control"] = "no-store"
        keep_token(request, response)
    return response


def _carried(request: Request) -> str:
    """Of the address, what the next page shall know too."""
    zone = request.query_params.get("zone")
    return f"?{urlencode({'zone': zone})}" if zone else ""


def _may_open(principal: Any, path: str) -> bool:
    return access.holds(access.PAGES["GET", path], principal.kind, principal.scopes)

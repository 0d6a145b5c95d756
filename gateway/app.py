"""Routes and layers, put together from `Parts`. Nothing here is global; API docs are off, /openapi.json is on.

RequestLog → BodyLimit → handlers of `errors` → draining? whose key? may it? → routes
"""

from collections.abc import Iterable

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute

from gateway import access
from gateway.api import (
    chat,
    completions,
    deployments,
    entries,
    health,
    key,
    ledger,
    limits,
    metrics,
    models,
    openapi,
    organization,
    prices,
    requests,
    statement,
    tenants,
    usage,
)
from gateway.body_limit import BodyLimit
from gateway.dashboard import pages
from gateway.errors import install_handlers
from gateway.openapi import document
from gateway.parts import Parts, parts_of
from gateway.query import refuse_nul
from gateway.telemetry import RequestLog

OPEN = (health.router, openapi.router)
SCRAPED = (metrics.router,)
"""It asks for a key itself: a token will do."""
PUBLIC = (chat.router, completions.router, models.router, key.router, requests.router)
ADMIN = (
    usage.router,
    entries.router,
    statement.router,
    ledger.router,
    *organization.ROUTERS,
    tenants.router,
    deployments.router,
    prices.router,
    limits.router,
)


def build_app(parts: Parts, *, with_public: bool = True, with_admin: bool | None = None) -> FastAPI:
    """`with_admin`: None leaves it to the settings (admin routes only on loopback without a bind of their own)."""
    app = FastAPI(title="SpecGate", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.parts = parts
    install_handlers(app)
    app.add_middleware(BodyLimit, limit=parts.settings.max_body_bytes, seconds=parts.settings.body_seconds)
    app.add_middleware(RequestLog, metrics=parts.metrics)
    serves_admin = parts.settings.serves_admin if with_admin is None else with_admin
    without_key = (*OPEN, *(SCRAPED if serves_admin else ()))
    with_key = (*(PUBLIC if with_public else ()), *(ADMIN if serves_admin else ()))
    # In the order in which they are looked through: what is asked most comes first.
    for router in with_key:
        app.include_router(router, dependencies=[Depends(_admitted)])
    for router in without_key:
        app.include_router(router)
    app.state.calls = calls_of((*without_key, *with_key))
    app.state.document = document(app.state.calls)
    if serves_admin:
        app.state.calls += calls_of(pages.ROUTERS)
        pages.install(app)
    return app


def calls_of(routers: Iterable[APIRouter]) -> list[tuple[str, str]]:
    """(method, template) of every route."""
    routes = (route for router in routers for route in router.routes if isinstance(route, APIRoute))
    return [(method, route.path) for route in routes for method in sorted(route.methods or ())]


async def _admitted(request: Request) -> None:
    """Before anything else of a request is looked at. `principal_of` then says whose it is."""
    parts = parts_of(request)
    parts.drain.refuse_new()
    refuse_nul(request.scope)
    principal = await parts.authenticator.authenticate(request.headers)
    access.require(request.method, request.scope["route"].path, principal.kind, principal.scopes)
    request.state.principal = principal

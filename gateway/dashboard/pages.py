"""All pages, and the parts that they share, put into an application."""

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import Response

from gateway.dashboard import deployments, limits, overview, sign_in
from gateway.dashboard.attempts import Attempts
from gateway.dashboard.face import ASSETS, Face, face_of
from gateway.dashboard.routing import PageRoute
from gateway.dashboard.visitor import admit
from gateway.errors import NotFound

open_pages = APIRouter(route_class=PageRoute)
rest = APIRouter(route_class=PageRoute, dependencies=[Depends(admit)])


@open_pages.get("/dashboard/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    if name not in ASSETS:
        raise NotFound("There is no such file.")
    return face_of(request).asset(name)


@rest.get("/dashboard/{rest:path}")
async def nothing(request: Request) -> Response:
    raise NotFound("This address has no page. The address may be old, or mistyped.", "unknown_url")


ROUTERS = (open_pages, sign_in.router, sign_in.with_key, overview.router, deployments.router, limits.router, rest)
"""The last one takes what no other did."""


def install(app: FastAPI) -> None:
    app.state.face = Face()
    app.state.attempts = Attempts()
    for router in ROUTERS:
        app.include_router(router, include_in_schema=False)

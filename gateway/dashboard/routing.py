"""A page's route: whatever happens in it, a browser gets a page of the same face, and a program OpenAI's envelope."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.dashboard.face import face_of, guarded
from gateway.dashboard.visitor import COOKIE
from gateway.errors import ApiError, InvalidApiKey, as_api_error, render
from gateway.telemetry import describe, note

NOT_SIGNED_IN = "You are not signed in, or your session has ended: after eight hours without use, or with its key."
TITLES = {
    403: "Not with this key",
    404: "Nothing here",
    409: "Something is in the way",
    412: "Somebody was faster",
    413: "Too large",
    429: "Too many at a time",
    500: "Something went wrong here",
    503: "Not available now",
}


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                response = await handler(request)
            except ClientDisconnect:
                raise
            except Exception as error:  # noqa: BLE001 - logged with the request, and told as a plain 500
                response = _failure(request, error)
            return guarded(request, response)

        return shown


def _failure(request: Request, error: Exception) -> Response:
    told = as_api_error(error, request)
    if told is not error and told.status >= 500:
        note(request.scope, error=describe(error))
    if "text/html" not in request.headers.get("accept", ""):
        return render(told)
    if isinstance(told, InvalidApiKey):
        return _sign_in_first(request)
    return _error_page(request, told)


def _sign_in_first(request: Request) -> Response:
    place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    notice = NOT_SIGNED_IN if COOKIE in request.cookies else None
    values = {"next": place if request.method == "GET" else "/dashboard", "notice": notice, "problem": None}
    return face_of(request).page(request, "sign_in.html", 401, **values)


def _error_page(request: Request, told: ApiError) -> Response:
    title = TITLES.get(told.status, "That did not work")
    response = face_of(request).page(request, "error.html", told.status, title=title, error=told)
    response.headers.update(told.headers)
    return response

"""The worker's routes. Each parses, calls and answers; whatever is refused is answered by one `Failure`."""

import asyncio
import logging
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from inference.config import SpeculationConfig
from inference.protocol import EngineError, Failure
from inference.server.guard import Guard
from inference.server.intake import malformed, parse
from inference.server.metrics import exposition
from inference.server.outbox import Outbox
from inference.server.response import EventResponse, failure_response
from inference.server.service import Service

MAX_BODY_BYTES = 64 * 2**20
"""Far over what the gateway lets through; a bound all the same."""
INTAKE_THREADS = 2
CHANGE_SECONDS = 5.0
"""A change of the drafters waits for the step in progress."""

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


def create_app(service: Service, secret: str) -> Starlette:
    routes = WorkerRoutes(service)
    return Starlette(
        routes=[
            Route("/generate", routes.generate, methods=["POST"]),
            Route("/requests/{request_id:path}", routes.abort, methods=["DELETE"]),
            Route("/livez", routes.livez),
            Route("/readyz", routes.readyz),
            Route("/load", routes.load),
            Route("/metrics", routes.metrics),
            Route("/speculation", routes.set_speculation, methods=["PUT"]),
        ],
        middleware=[Middleware(Guard, secret=secret)],
        exception_handlers={EngineError: _engine_error, HTTPException: _http_error},
    )


class WorkerRoutes:
    """The handlers, over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._threads = ThreadPoolExecutor(INTAKE_THREADS, thread_name_prefix="intake")

    async def generate(self, request: Request) -> Response:
        engine = self._service.serving()
        asked = await self._on_thread(parse, await _body(request))
        opened = self._service.open_requests
        if asked.request_id in opened:
            raise EngineError(409, "duplicate_request", f"Request {asked.request_id!r} is running already.")
        outbox = Outbox(
            asked.sampling.n,
            abort=partial(engine.worker.abort, asked.request_id),
            forget=partial(opened.pop, asked.request_id),
        )
        opened[asked.request_id] = outbox
        try:
            admission = await self._on_thread(engine.intake.admit, asked)
        except BaseException:
            del opened[asked.request_id]
            raise
        if failure := engine.worker.refusal(asked.cache_salt):
            del opened[asked.request_id]
            return failure_response(failure)
        submit = partial(engine.worker.submit, admission.sequences, outbox.deliver)
        return EventResponse(admission.accepted, outbox, submit)

    async def abort(self, request: Request) -> Response:
        """The stream is not cut: it ends with the last events of its choices."""
        request_id = request.path_params["request_id"]
        outbox = self._service.open_requests.get(request_id)
        if outbox is None:
            raise EngineError(404, "request_not_found", f"No request {request_id!r} is running.")
        outbox.abort()
        return Response(status_code=204)

    async def livez(self, request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(self, request: Request) -> Response:
        if self._service.failure:
            refused = {"refused": True} if self._service.is_refused else {}
            return JSONResponse({"failure": self._service.failure} | refused, status_code=503)
        try:
            engine = self._service.serving()
        except EngineError:
            return JSONResponse(
                {"waiting_for": self._service.waiting_for or "the last requests to end"}, status_code=503
            )
        return Response(engine.ready.model_dump_json(), media_type="application/json")

    async def load(self, request: Request) -> Response:
        return Response(self._service.serving().worker.load().model_dump_json(), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        text = exposition(self._service.serving().worker.load(), len(self._service.open_requests))
        return Response(text, media_type="text/plain; version=0.0.4")

    async def set_speculation(self, request: Request) -> Response:
        engine = self._service.serving()
        try:
            config = SpeculationConfig.model_validate_json(await _body(request))
        except ValidationError as error:
            raise malformed("speculation", "invalid_speculation", error) from None
        await self._applied(engine.worker.set_speculation(config))
        return Response(config.model_dump_json(), media_type="application/json")

    async def _applied(self, change: Future[None]) -> None:
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                await asyncio.wrap_future(change)
        except TimeoutError:
            raise EngineError(503, "engine_busy", "The change waits for the step in progress; ask again.") from None
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(
                409, "configuration_refused", f"The drafters cannot be built ({type(error).__name__}: {error})."
            ) from error

    async def _on_thread(self, call: Callable[..., Result], *args: object) -> Result:
        """Off the event loop. What the request said must not reach a log, so only the place of a fault is logged."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - answered and logged without its message
            _log.error("%s in intake:\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            raise EngineError(
                500, "internal_error", "The worker failed on this request; its log has the trace."
            ) from None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise EngineError(413, "body_too_large", f"A request may have {MAX_BODY_BYTES} bytes.")
    return bytes(body)


async def _engine_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, EngineError)
    return failure_response(error.failure)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return failure_response(Failure(status=error.status_code, code="no_such_route", message=error.detail))

"""The engine behind HTTP, as the gateway sees it (`protocol.InferenceClient`). Imports no torch.

connection refused, or cut before `accepted`     → EngineError 503 engine_unavailable
cut later, before every choice has ended         → EngineError 500 engine_lost
a failure line                                   → the EngineError it was
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from inference.protocol import (
    PROTOCOL_VERSION,
    Accepted,
    EngineError,
    Failure,
    GenerationRequest,
    TokenEvent,
    WorkerLoad,
    WorkerReady,
    wire_event,
)
from inference.sockets import Sockets
from inference.speculation_config import SpeculationConfig

Said = TypeVar("Said", WorkerReady, WorkerLoad)
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 10.0
"""For everything but a stream, which may be silent as long as it likes."""
NEEDED = frozenset({b"host", b"authorization", b"x-specgate-protocol", b"content-type"})
"""Headers of a stream's request: each is looked at a dozen times on its way."""


class Lines:
    """Bytes in any pieces → whole lines. Only a newline ends one: JSON may hold every other kind of line end."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._rest += data
        *lines, rest = self._rest.split(b"\n") if b"\n" in data else (self._rest,)
        self._rest = rest
        return [bytes(line) for line in lines]


class HttpInferenceClient:
    """One worker. Safe for many requests at a time on one event loop."""

    def __init__(self, base_url: str, secret: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport or _transport(base_url)
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"authorization": f"Bearer {secret}", "x-specgate-protocol": str(PROTOCOL_VERSION)},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, pool=None),
            transport=self._transport,
        )
        like = self._http.build_request("POST", "/generate", headers={"content-type": "application/json"})
        self._generate = like.url, [pair for pair in like.headers.raw if pair[0].lower() in NEEDED]

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Accepted | TokenEvent, None]:
        """Close it early (`aclose`) to abort the request."""
        open_choices: set[int] | None = None
        try:
            async with self._stream(_body(request)) as response, aclosing(_events(response)) as events:
                async for event in events:
                    if isinstance(event, Accepted):
                        open_choices = set(range(request.sampling.n))
                    elif event.finish_reason and open_choices is not None:
                        open_choices.discard(event.choice)
                    yield event
        except httpx.TransportError as error:
            raise _lost(error, accepted=open_choices is not None) from error
        if open_choices is None or open_choices:
            raise _lost(None, accepted=open_choices is not None)

    async def abort(self, request_id: str) -> None:
        """A request that has ended, or whose engine is gone, is no error."""
        try:
            response = await self._http.delete(f"/requests/{quote(request_id, safe='')}")
        except httpx.TransportError:
            return
        if response.status_code not in (204, 404):
            raise _refusal(response)

    async def ready(self) -> WorkerReady:
        """Raises EngineError while it is not: 503 with what it waits for, 500 where it never will be."""
        response = await self._get("/readyz")
        if response.status_code != 200:
            raise _not_ready(response)
        return _said(WorkerReady, response)

    async def load(self) -> WorkerLoad:
        response = await self._get("/load")
        if response.status_code != 200:
            raise _refusal(response)
        return _said(WorkerLoad, response)

    async def set_speculation(self, config: SpeculationConfig) -> None:
        """Returns when it is at work. Raises EngineError: 409 where the worker keeps the one it has."""
        try:
            response = await self._http.put("/speculation", content=config.model_dump_json())
        except httpx.TransportError as error:
            raise _lost(error, accepted=False) from error
        if response.status_code != 200:
            raise _refusal(response)

    async def aclose(self) -> None:
        await self._http.aclose()

    @asynccontextmanager
    async def _stream(self, body: bytes) -> AsyncIterator[httpx.Response]:
        """Past the client, whose redirects, cookies and events cost as much as the request itself."""
        url, headers = self._generate
        told = [*headers, (b"content-length", b"%d" % len(body))]
        extensions = {"timeout": {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None}}
        asked = httpx.Request("POST", url, headers=told, stream=httpx.ByteStream(body), extensions=extensions)
        response = await self._transport.handle_async_request(asked)
        try:
            if response.status_code != 200:
                await response.aread()
                raise _refusal(response)
            yield response
        finally:
            await response.aclose()

    async def _get(self, path: str) -> httpx.Response:
        try:
            return await self._http.get(path)
        except httpx.TransportError as error:
            raise _lost(error, accepted=False) from error


def _transport(base_url: str) -> httpx.AsyncBaseTransport:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    # A proxy has no place between the two.
    transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
    if httpx.URL(base_url).scheme == "http":
        transport._pool._network_backend = Sockets()  # httpx passes none on
    return transport


def _body(request: GenerationRequest) -> bytes:
    try:
        return request.model_dump_json().encode()
    except PydanticSerializationError as error:
        told = "The request holds text that is no valid Unicode (half of a surrogate pair)."
        raise EngineError(400, "invalid_unicode", told) from error


async def _events(response: httpx.Response) -> AsyncGenerator[Accepted | TokenEvent, None]:
    lines = Lines()
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async for chunk in response.stream:
        for line in lines.feed(chunk):
            event = _event(line)
            if isinstance(event, Failure):
                raise _error(event)
            yield event


def _event(line: bytes) -> Accepted | TokenEvent | Failure:
    try:
        return wire_event.validate_json(line)
    except ValidationError as error:
        raise _foreign() from error


def _said(what: type[Said], response: httpx.Response) -> Said:
    try:
        return what.model_validate_json(response.content)
    except ValidationError as error:
        raise _foreign() from error


def _foreign() -> EngineError:
    told = "The engine said something that is not in the protocol; gateway and worker must be of one release."
    return EngineError(500, "engine_protocol", told)


def _error(failure: Failure) -> EngineError:
    return EngineError(failure.status, failure.code, failure.message, failure.param)


def _refusal(response: httpx.Response) -> EngineError:
    try:
        return _error(Failure.model_validate_json(response.content))
    except ValidationError:
        return EngineError(503, "engine_unavailable", f"The engine answered with status {response.status_code}.")


def _not_ready(response: httpx.Response) -> EngineError:
    told: Any = response.json() if response.headers.get("content-type") == "application/json" else {}
    if "failure" in told:
        code = "model_refused" if told.get("refused") else "engine_failed"
        return EngineError(500, code, f"The engine failed: {told['failure']}")
    if "waiting_for" in told:
        return EngineError(503, "engine_starting", f"The engine waits for {told['waiting_for']}.")
    return _refusal(response)


def _lost(error: Exception | None, *, accepted: bool) -> EngineError:
    why = f" ({type(error).__name__})" if error else ""
    if accepted:
        return EngineError(500, "engine_lost", f"The engine was lost while it answered{why}.")
    return EngineError(503, "engine_unavailable", f"The engine cannot be reached{why}. Try again shortly.")

"""What a client is told when a request fails: one tree, one envelope, one handler.

    ApiError                      status  code
    ├── InvalidRequest            400     invalid_value, unsupported_parameter, … (`code` says which)
    ├── InvalidApiKey             401     invalid_api_key        one body for missing, malformed, unknown, revoked
    ├── PermissionDenied          403     permission_denied
    │   └── TenantSuspended       403     tenant_suspended
    ├── NotFound                  404     not_found
    │   └── ModelNotFound         404     model_not_found        lists what the key may use
    ├── MethodNotAllowed          405     method_not_allowed
    ├── RequestTimeout            408     request_timeout        its body did not arrive
    ├── Conflict                  409     conflict, …            never retried: `x-should-retry: false`
    ├── PreconditionFailed        412     version_mismatch       If-Match names another version than the current one
    ├── RequestTooLarge           413     request_too_large
    ├── PreconditionRequired      428     if_match_required
    ├── RateLimited               429     queue_full, rate_limit_exceeded       with `retry-after`
    ├── QuotaExceeded             429     insufficient_quota                    never retried
    ├── ServerError               500     server_error           says nothing of the cause
    └── Unavailable               503                            with `retry-after`
        ├── StorageUnavailable    503     storage_unavailable
        ├── StorageFull           503     storage_full
        ├── EngineUnavailable     503     engine_unavailable
        └── Draining              503     draining

Every body is `{"error": {"message", "type", "param", "code"}}` with all four keys, the framework's own errors
included; 422 never leaves. Messages never hold keys, prompts or stack traces.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

import storage.errors
from inference.protocol import EngineError, Failure
from storage.redaction import without_keys

INVALID = "invalid_request_error"
SERVER = "server_error"
BETWEEN_US = frozenset(
    {
        *("wrong_secret", "protocol_mismatch", "no_such_route", "body_too_large", "internal_error", "model_refused"),
        *("stale_configuration", "configuration_refused", "invalid_speculation", "engine_ahead", "engine_busy"),
        *("duplicate_request", "request_not_found", "forced_output_refused"),
    }
)
"""What a worker says to its gateway alone: no client is at fault, and none can mend it."""


class ApiError(Exception):
    """A failure in OpenAI's words. A key that a client put where none belongs is not said back to it."""

    def __init__(
        self,
        status: int,
        type: str,
        code: str,
        message: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.type, self.code = status, type, code
        self.message, self.param = without_keys(message), None if param is None else without_keys(param)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(ApiError):
    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(400, INVALID, code, message, param)


class InvalidApiKey(ApiError):
    """Takes no arguments: whatever the cause, the body is the same."""

    def __init__(self) -> None:
        message = "Incorrect API key provided. Send a key of this gateway as 'Authorization: Bearer sk-sg-…'."
        super().__init__(401, INVALID, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})


class PermissionDenied(ApiError):
    def __init__(
        self,
        message: str = "This key may not do that. Ask an operator for a key with the scope.",
        code: str = "permission_denied",
    ) -> None:
        super().__init__(403, "permission_error", code, message)


class TenantSuspended(PermissionDenied):
    def __init__(self) -> None:
        super().__init__("This organization is suspended. Its operator can say why, and resume it.", "tenant_suspended")


class NotFound(ApiError):
    def __init__(self, message: str, code: str = "not_found", param: str | None = None) -> None:
        super().__init__(404, INVALID, code, message, param)


class ModelNotFound(NotFound):
    def __init__(self, model: str, available: list[str]) -> None:
        shown = model if len(model) <= 100 else model[:100] + "…"
        may = ", ".join(f"`{name}`" for name in available) or "none"
        message = f"The model `{shown}` does not exist or you do not have access to it. Models this key may use: {may}."
        super().__init__(message, "model_not_found", "model")


class MethodNotAllowed(ApiError):
    def __init__(self, method: str, path: str, allow: str | None = None) -> None:
        message = f"Not allowed to {method} on {path}." + (f" Allowed: {allow}." if allow else "")
        super().__init__(405, INVALID, "method_not_allowed", message, headers={"allow": allow} if allow else None)


class Conflict(ApiError):
    """Official clients try a 409 again; this one would only fail again."""

    def __init__(self, message: str, code: str = "conflict", param: str | None = None) -> None:
        super().__init__(409, INVALID, code, message, param, {"x-should-retry": "false"})


class PreconditionFailed(ApiError):
    def __init__(self, current: str) -> None:
        message = f"This was changed since you read it; its version is now {current}. Read it again, then repeat."
        super().__init__(412, INVALID, "version_mismatch", message, "If-Match", {"etag": current})


class RequestTimeout(ApiError):
    def __init__(self, seconds: float) -> None:
        message = f"The request's body did not arrive within {seconds:g} s (SPECGATE_BODY_SECONDS). Send it again."
        # What still arrives of it is never read, so the connection cannot be used again.
        super().__init__(408, INVALID, "request_timeout", message, headers={"connection": "close"})


class RequestTooLarge(ApiError):
    def __init__(self, limit: int) -> None:
        message = f"The request body is over {limit} bytes, the most this gateway takes (SPECGATE_MAX_BODY_BYTES)."
        # The rest of the body is never read, so the connection cannot be used again.
        super().__init__(413, INVALID, "request_too_large", message, headers={"connection": "close"})


class PreconditionRequired(ApiError):
    def __init__(self, current: str) -> None:
        message = f"Send the ETag of what you read as If-Match, so that no change is lost; it is now {current}."
        super().__init__(428, INVALID, "if_match_required", message, "If-Match", {"etag": current})


class RateLimited(ApiError):
    """Too much at a time; the same request may go through after `retry_after` seconds."""

    def __init__(self, message: str, code: str = "rate_limit_exceeded", retry_after: int = 1) -> None:
        super().__init__(429, "rate_limit_error", code, message, headers={"retry-after": str(retry_after)})


class QuotaExceeded(ApiError):
    """The month's budget does not cover it."""

    def __init__(self, message: str) -> None:
        headers = {"x-should-retry": "false"}
        super().__init__(429, "insufficient_quota", "insufficient_quota", message, headers=headers)


class ServerError(ApiError):
    def __init__(self, message: str | None = None, code: str = "server_error") -> None:
        told = message or "The server had an error processing the request. Its log has the cause under x-request-id."
        super().__init__(500, SERVER, code, told)


class Unavailable(ApiError):
    def __init__(self, code: str, message: str, retry_after: int = 1) -> None:
        super().__init__(503, SERVER, code, message, headers={"retry-after": str(retry_after)})


class StorageUnavailable(Unavailable):
    def __init__(self) -> None:
        super().__init__("storage_unavailable", "The usage ledger cannot be reached, so nothing was run. Try again.")


class StorageFull(Unavailable):
    def __init__(self) -> None:
        told = "The disk of the usage ledger is full, so nothing was run. It needs room; then this works again."
        super().__init__("storage_full", told, retry_after=5)


def from_storage(error: BaseException) -> Unavailable:
    """What a caller is told when the stores cannot do it now."""
    return StorageFull() if isinstance(error, storage.errors.StorageFull) else StorageUnavailable()


class EngineUnavailable(Unavailable):
    def __init__(self, message: str = "The engine is starting or has stopped. /readyz says why. Try again.") -> None:
        super().__init__("engine_unavailable", message, retry_after=2)


class Draining(Unavailable):
    def __init__(self) -> None:
        super().__init__("draining", "This gateway is shutting down. Try again.", retry_after=5)
        self.headers["connection"] = "close"


def from_engine(error: EngineError) -> ApiError:
    """The engine's refusal, in the same words and under the same status."""
    failure = error.failure
    if failure.code in BETWEEN_US:
        return ServerError()
    match failure.status:
        case 400:
            return InvalidRequest(failure.message, failure.param, failure.code)
        case 429:
            return RateLimited(failure.message, failure.code, retry_after=1)
        case 503:
            return Unavailable(failure.code, _without_cause(failure), retry_after=2)
        case 500:
            return ServerError(_without_cause(failure), failure.code)
        case _:
            return ServerError()


def _without_cause(failure: Failure) -> str:
    """What a failed engine says of itself may name files of its machine; operators read it elsewhere."""
    return "The engine failed. Try again." if failure.code == "engine_failed" else failure.message


def from_framework(error: HTTPException, request: Request | None) -> ApiError:
    headers = error.headers or {}
    method, path = (request.method, request.url.path) if request else ("", "")
    match error.status_code:
        case 404:
            return NotFound(f"Unknown path: {method} {path}.", "unknown_url")
        case 405:
            return MethodNotAllowed(method, path, _allowed(request) or headers.get("allow") or headers.get("Allow"))
        case status if status < 500:
            return ApiError(400, INVALID, "invalid_request", str(error.detail))
        case _:
            return ServerError()


def _allowed(request: Request | None) -> str | None:
    """Every method of the path: the framework names those of the first route alone."""
    route = request.scope.get("route") if request else None
    calls = getattr(request.app.state, "calls", ()) if request else ()
    return ", ".join(method for method, template in calls if template == getattr(route, "path", None)) or None


def render(error: ApiError) -> JSONResponse:
    return JSONResponse(error.body(), status_code=error.status, headers=error.headers)


def install_handlers(app: FastAPI) -> None:
    """The one place where exceptions become answers. What no handler knows is caught by `telemetry.RequestLog`."""

    async def handle(request: Request, error: Exception) -> JSONResponse:
        return render(as_api_error(error, request))

    for kind in (ApiError, EngineError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handle)


def as_api_error(error: Exception, request: Request | None = None) -> ApiError:
    match error:
        case ApiError():
            return error
        case EngineError():
            return from_engine(error)
        case HTTPException():
            return from_framework(error, request)
        case RequestValidationError():
            return _from_fastapi(error.errors())
        case _:
            return ServerError()


def _from_fastapi(problems: Any) -> ApiError:
    """Parameters that FastAPI itself validates (queries, paths): the first problem, in OpenAI's words."""
    first = problems[0]
    name = str(first["loc"][-1])
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return InvalidRequest(f"Invalid or missing value for '{name}'.", name, code)

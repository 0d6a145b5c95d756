"""An endpoint's request, read and addressed: everything that can be refused without the engine is refused here."""

import hmac
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from starlette.requests import Request

from gateway.answers import CompletionResponse, StreamedResponse, WholeResponse
from gateway.auth import Principal
from gateway.completion import Completion, Job
from gateway.openai.parse import parse
from gateway.openai.schema import Common
from gateway.openai.translate import Answer, Heading
from gateway.parts import Parts, parts_of, principal_of
from gateway.routing import Deployment
from gateway.secret import subkey
from gateway.telemetry import note, request_id
from inference.protocol import GenerationRequest
from storage.texts import LABEL
from storage.values import OpenEntry

R = TypeVar("R", bound=Common)
Translate = Callable[[R, str, str], tuple[GenerationRequest, ...]]
OTHER = "other"


async def respond(
    request: Request, schema: type[R], translate: Translate[R], spell: Callable[[Heading], Answer]
) -> CompletionResponse:
    """Key, body, model, translation; the response that is returned opens the ledger when it runs."""
    parts = parts_of(request)
    principal = principal_of(request)
    note(request.scope, tenant=principal.tenant_id, key=principal.key_id)
    asked = parse(await request.body(), schema)
    deployment = parts.router.route(principal, asked.model)
    name = request_id(request.scope)
    runs = translate(asked, name, parts.router.cache_salt(principal, deployment))
    entry = _entry(parts, principal, asked, name, request.url.path, len(runs) * asked.choices)
    completion = Completion(Job(runs, deployment.client, entry), parts.books, parts.settings)
    kind = StreamedResponse if asked.stream else WholeResponse
    return kind(completion, spell(await _heading(name, asked, deployment)), principal, parts.service)


def _entry(parts: Parts, principal: Principal, asked: Common, name: str, route: str, choices: int) -> OpenEntry:
    return OpenEntry(
        request_id=name,
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        project_id=principal.project_id,
        model=asked.model,
        route=route,
        owner=parts.books.owner,
        rejected_prediction=principal.rejected_prediction,
        choices=choices,
        workload=workload(asked),
        user_hash=user_hash(parts.secret, principal, asked.user),
    )


async def _heading(name: str, asked: Common, deployment: Deployment) -> Heading:
    fingerprint = await deployment.fingerprint.get()
    return Heading(name, int(time.time()), asked.model, fingerprint, asked.includes_usage)


def workload(asked: Common) -> str | None:
    """The label under which a tenant finds this kind of work again; `other` where it is no label."""
    label = (asked.metadata or {}).get("workload")
    return label if label is None or LABEL.fullmatch(label) else OTHER


def user_hash(secret: bytes, principal: Principal, user: str | None) -> str | None:
    """The client's end user, told apart but not named; another tenant's same user looks different."""
    if not user:
        return None
    key = subkey(secret, b"user")
    return hmac.new(key, f"{principal.tenant_id}\0{user}".encode(), sha256).hexdigest()

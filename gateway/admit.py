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
from gateway.errors import InvalidRequest
from gateway.holdout import Lot, rate_for
from gateway.idempotency import claim_of
from gateway.limits.ask import Ask
from gateway.openai.parse import parse
from gateway.openai.schema import Common
from gateway.openai.translate import Answer, Heading, Terms
from gateway.parts import parts_of, principal_of
from gateway.routing import Route
from gateway.secret import subkey
from gateway.telemetry import note, request_id
from gateway.workloads import OTHER
from inference.protocol import GREEDY_BELOW, GenerationRequest
from storage.texts import LABEL
from storage.values import OpenEntry

R = TypeVar("R", bound=Common)
Translate = Callable[[R, str, Terms], tuple[GenerationRequest, ...]]


async def respond(
    request: Request, schema: type[R], translate: Translate[R], spell: Callable[[Heading], Answer]
) -> CompletionResponse:
    """Key, body, model, translation; the response that is returned opens the ledger when it runs."""
    parts = parts_of(request)
    principal = principal_of(request)
    note(request.scope, tenant=principal.tenant_id, key=principal.key_id)
    body = await request.body()
    asked = parse(body, schema)
    claim = claim_of(request, principal, body, parts.secret)
    route = parts.router.route(principal, asked.model)
    _require_opt_out(asked, route)
    name = request_id(request.scope)
    lot = parts.holdout.draw(name, rate_for(principal, asked, route))
    salt = parts.router.cache_salt(principal, route)
    runs = translate(asked, name, Terms(salt, route.config_version, lot.is_control))
    label = await parts.workloads.file(principal.tenant_id, workload(asked))
    entry = _entry(request, asked, route, len(runs) * asked.choices, lot, label)
    completion = Completion(Job(runs, route.client, entry, claim, route.drafter), parts.books, parts.settings)
    kind = StreamedResponse if asked.stream else WholeResponse
    bills_rejected = principal.rejected_prediction != "free"
    ask = Ask(name, route.name, runs, await route.fingerprint.context(), bills_rejected, route.price)
    return kind(completion, ask, spell(await _heading(entry, asked, route)), principal, parts.service)


def _require_opt_out(asked: Common, route: Route) -> None:
    if asked.speculation == "off" and not route.allow_opt_out:
        message = f"The model `{asked.model}` does not let a request switch speculation off. Leave 'speculation' out."
        raise InvalidRequest(message, "speculation", "unsupported_parameter")


def _entry(request: Request, asked: Common, route: Route, choices: int, lot: Lot, label: str | None) -> OpenEntry:
    parts, principal = parts_of(request), principal_of(request)
    return OpenEntry(
        request_id=request_id(request.scope),
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        project_id=principal.project_id,
        model=asked.model,
        route=request.url.path,
        owner=parts.books.owner,
        rejected_prediction=principal.rejected_prediction,
        choices=choices,
        workload=label,
        user_hash=user_hash(parts.secret, principal, asked.user),
        deployment_id=route.deployment_id,
        config_version=route.config_version,
        price_version=route.prices.version if route.prices else None,
        cohort=lot.cohort,
        holdout_ppm=lot.ppm,
        sampled=is_sampled(asked),
        speculation=asked.speculation or "auto",
    )


async def _heading(entry: OpenEntry, asked: Common, route: Route) -> Heading:
    fingerprint = await route.fingerprint.get()
    told = entry if asked.return_timings else None
    return Heading(entry.request_id, int(time.time()), asked.model, fingerprint, asked.includes_usage, told)


def is_sampled(asked: Common) -> bool:
    return asked.temperature is None or asked.temperature >= GREEDY_BELOW


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

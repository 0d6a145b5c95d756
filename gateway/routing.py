"""Model name or alias → the deployment that serves it, and the salt of a tenant's cached prefixes there."""

import asyncio
import hmac
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from gateway.auth import Principal
from gateway.errors import ModelNotFound
from gateway.secret import subkey
from inference.protocol import EngineError, InferenceClient, WorkerReady
from storage.money import FREE, Price
from storage.values.prices import PriceVersion

FINGERPRINT_SECONDS = 1.0


class Engine(InferenceClient, Protocol):
    async def ready(self) -> WorkerReady:
        """What it says of itself. Raises EngineError while it cannot."""
        ...


class Fingerprint:
    """What an engine is made of (weights, their type, device, context): asked until it has said so once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: WorkerReady | None = None

    async def get(self) -> str | None:
        known = await self._facts()
        return known.fingerprint if known else None

    async def context(self) -> int | None:
        """The longest prompt and answer together, in tokens."""
        known = await self._facts()
        return known.max_model_len if known else None

    async def _facts(self) -> WorkerReady | None:
        if self._known is None:
            with suppress(EngineError, TimeoutError):
                async with asyncio.timeout(FINGERPRINT_SECONDS):
                    self._known = await self._engine.ready()
        return self._known


@dataclass(frozen=True, slots=True)
class Route:
    """A deployment as clients may call it: its engines as one, and what holds of a request admitted now."""

    deployment_id: str
    name: str
    client: InferenceClient
    fingerprint: Fingerprint
    created: int
    """Unix seconds."""
    config_version: int = 1
    """The drafter configuration at work."""
    allow_opt_out: bool = True
    drafter: str = "none"
    """The kind at work."""
    prices: PriceVersion | None = None
    """None: it costs nothing."""
    holdout_rate: float = 0.0
    """Of the requests that its own drafter would help; 0 where it has none."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Alias → this deployment's part of its requests."""
    is_ready: bool = True

    @property
    def price(self) -> Price:
        return self.prices.price if self.prices else FREE

    def answers(self, model: str) -> bool:
        return model == self.name or model in self.weights


class Router:
    """`routes` is asked for each request, so that it sees what the fleet has now."""

    def __init__(
        self, routes: Callable[[], Sequence[Route]], secret: bytes, draw: Callable[[], float] = random.random
    ) -> None:
        self._routes = routes
        self._draw = draw
        self._salt_key = subkey(secret, b"cache-salt")

    def models(self, principal: Principal) -> dict[str, Route]:
        """What this key may use, by the names that it may use: deployments first, then aliases."""
        routes = self._routes()
        named = {route.name: route for route in routes}
        named = {alias: route for route in routes for alias in route.weights} | named
        ordered = sorted(named, key=lambda name: (name != named[name].name, named[name].created, name))
        return {name: named[name] for name in ordered if principal.may_use(name)}

    def route(self, principal: Principal, model: str) -> Route:
        """Of deployments that share an alias, one that is ready, by weight. Raises ModelNotFound."""
        answering = [route for route in self._routes() if route.answers(model)]
        if not answering or not principal.may_use(model):
            raise ModelNotFound(model, list(self.models(principal)))
        named = [route for route in answering if route.name == model]
        return named[0] if named else self._drawn(model, answering)

    def cache_salt(self, principal: Principal, route: Route) -> str:
        """Opaque to the engine; tells tenants and deployments apart, and no client can choose it."""
        named = f"{len(principal.tenant_id)}:{principal.tenant_id}:{route.name}".encode()
        return hmac.digest(self._salt_key, named, "sha256").hex()

    def _drawn(self, alias: str, routes: Sequence[Route]) -> Route:
        choices = [route for route in routes if route.is_ready] or list(routes)
        ends = list(accumulate(route.weights[alias] for route in choices))
        return choices[bisect_right(ends, self._draw() * ends[-1])]

"""Model name → the deployment that serves it, and the salt under which a tenant's prefixes are cached there."""

import asyncio
import hmac
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from gateway.auth import Principal
from gateway.errors import ModelNotFound
from gateway.secret import subkey
from inference.protocol import EngineError, InferenceClient, WorkerReady

FINGERPRINT_SECONDS = 1.0


class Engine(InferenceClient, Protocol):
    async def ready(self) -> WorkerReady:
        """What it says of itself. Raises EngineError while it cannot."""
        ...


class Fingerprint:
    """What an engine is made of (weights, their type, device): asked until it has said so once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: str | None = None

    async def get(self) -> str | None:
        if self._known is None:
            with suppress(EngineError, TimeoutError):
                async with asyncio.timeout(FINGERPRINT_SECONDS):
                    self._known = (await self._engine.ready()).fingerprint
        return self._known


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model as clients call it, on an engine."""

    name: str
    client: InferenceClient
    fingerprint: Fingerprint
    created: int
    """Unix seconds."""


class Router:
    def __init__(self, deployments: Sequence[Deployment], secret: bytes) -> None:
        self._by_name = {deployment.name: deployment for deployment in deployments}
        self._salt_key = subkey(secret, b"cache-salt")

    def available(self, principal: Principal) -> list[Deployment]:
        """What this key may use."""
        return [deployment for name, deployment in self._by_name.items() if principal.may_use(name)]

    def route(self, principal: Principal, model: str) -> Deployment:
        """Raises ModelNotFound."""
        deployment = self._by_name.get(model)
        if deployment is None or not principal.may_use(model):
            raise ModelNotFound(model, [known.name for known in self.available(principal)])
        return deployment

    def cache_salt(self, principal: Principal, deployment: Deployment) -> str:
        """Opaque to the engine; tells tenants and deployments apart, and no client can choose it."""
        named = f"{len(principal.tenant_id)}:{principal.tenant_id}:{deployment.name}".encode()
        return hmac.new(self._salt_key, named, sha256).hexdigest()

"""Model name → the deployment that serves it, and the salt under which a tenant's prefixes are cached there."""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from gateway.auth import Principal
from gateway.errors import ModelNotFound
from gateway.secret import subkey
from inference.protocol import InferenceClient


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model as clients call it, on an engine."""

    name: str
    client: InferenceClient
    created: int
    """Unix seconds."""
    fingerprint: Callable[[], str | None] = lambda: None
    """What the engine is made of (revision, dtype, version, kernels), once it has said so."""


class Router:
    def __init__(self, deployments: Sequence[Deployment], secret: bytes) -> None:
        self._by_name = {deployment.name: deployment for deployment in deployments}
        self._salt_key = subkey(secret, b"cache-salt")

    def available(self, principal: Principal) -> list[Deployment]:
        """What this key may use."""
        return list(self._by_name.values())

    def route(self, principal: Principal, model: str) -> Deployment:
        """Raises ModelNotFound."""
        deployment = self._by_name.get(model)
        if deployment is None:
            raise ModelNotFound(model, [known.name for known in self.available(principal)])
        return deployment

    def cache_salt(self, principal: Principal, deployment: Deployment) -> str:
        """Opaque to the engine; tells tenants and deployments apart, and no client can choose it."""
        named = f"{len(principal.tenant_id)}:{principal.tenant_id}:{deployment.name}".encode()
        return hmac.new(self._salt_key, named, sha256).hexdigest()

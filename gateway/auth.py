"""Who is asking: a key becomes a `Principal`, or one and the same 401.

A key that was found is remembered for at most a second, so a revoked key is refused after a second everywhere,
whatever else is broken. Only digests are remembered. A database that is away is 503, never 401.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.errors import InvalidApiKey, PermissionDenied, StorageUnavailable
from storage import Database, StorageAway
from storage.api_keys import ApiKeys, needs_touch
from storage.tenants import Tenants
from storage.values import KeyKind, RejectedPolicy

REMEMBER_SECONDS = 1.0
ANSWER_SECONDS = 1.0
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, and what it may do."""

    tenant_id: str
    key_id: str
    """The key's public id."""
    kind: KeyKind
    rejected_prediction: RejectedPolicy = "free"
    """The tenant's policy, which a request keeps from its admission to its bill."""

    def require_operator(self) -> None:
        """Raises PermissionDenied for a key that only runs models."""
        if self.kind != "operator":
            raise PermissionDenied("This needs an operator key; the key sent may only run models.")


class Authenticator:
    """Finds the principal of a request's headers."""

    def __init__(
        self, db: Database, clock: Callable[[], float] = time.monotonic, patience: float = ANSWER_SECONDS
    ) -> None:
        self._db = db
        self._clock = clock
        self._patience = patience
        self._known: dict[bytes, tuple[float, Principal]] = {}

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Reads `authorization: Bearer` and `x-api-key`. Raises InvalidApiKey, StorageUnavailable."""
        key = _presented(headers)
        if key is None:
            raise InvalidApiKey
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        until, principal = self._known.get(digest, (0.0, None))
        if principal is not None and self._clock() < until:
            return principal
        asked = self._clock()
        principal = await self._answered(key)
        self._remember(digest, principal, asked + REMEMBER_SECONDS)
        return principal

    async def is_revoked(self, principal: Principal) -> bool:
        """For open streams. A database that is away revokes nobody: running streams finish."""
        try:
            async with asyncio.timeout(self._patience), self._db.view() as session:
                key = await ApiKeys(session).get(principal.key_id)
        except (StorageAway, TimeoutError):
            return False
        return key is None or not key.is_active(datetime.now(UTC))

    async def _answered(self, key: str) -> Principal:
        try:
            async with asyncio.timeout(self._patience):
                return await self._look_up(key)
        except (StorageAway, TimeoutError) as error:
            raise StorageUnavailable from error

    async def _look_up(self, full_key: str) -> Principal:
        async with self._db.view() as session:
            key = await ApiKeys(session).find(full_key)
            tenant = await Tenants(session).get(key.tenant_id) if key else None
        if key is None or tenant is None:
            raise InvalidApiKey
        if needs_touch(key, datetime.now(UTC)):
            async with self._db.unit() as session:
                await ApiKeys(session).touch(key)
        return Principal(tenant.id, key.public_id, key.kind, tenant.rejected_prediction)

    def _remember(self, digest: bytes, principal: Principal, until: float) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (until, principal)


def _presented(headers: Mapping[str, str]) -> str | None:
    """The key a request carries. `headers` has lower-case names or compares without case, as starlette's do."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip() or None

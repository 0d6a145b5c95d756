"""Who is asking: a key becomes a `Principal`, or one and the same 401.

A key that was found is remembered for at most a second, so a revoked key is refused after a second everywhere,
whatever else is broken. Only digests are remembered. A database that is away is 503, never 401.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from gateway.errors import InvalidApiKey, StorageUnavailable, TenantSuspended
from gateway.last_used import LastUsed
from gateway.shared_reads import SharedReads
from storage import Database, StorageAway
from storage.database import Session
from storage.keyring import Holder, Keyring
from storage.values import KeyKind, RejectedPolicy

T = TypeVar("T")
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
    project_id: str = ""
    """Whose requests these are within the tenant."""
    scopes: frozenset[str] | None = None
    """None: all of its kind."""
    models: frozenset[str] | None = None
    """None: all there are."""

    holdout_includes_prediction: bool = False
    """Whether its requests with a `prediction` may run without speculation, as controls."""

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models


class Authenticator:
    """Finds the principal of a request's headers."""

    def __init__(
        self,
        db: Database,
        clock: Callable[[], float] = time.monotonic,
        patience: float = ANSWER_SECONDS,
        last_used: LastUsed | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._patience = patience
        self._last_used = last_used
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._reads = SharedReads()

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Reads `authorization: Bearer` and `x-api-key`. Raises InvalidApiKey, TenantSuspended, StorageUnavailable."""
        key = _presented(headers)
        if key is None:
            raise InvalidApiKey
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        until, principal = self._known.get(digest, (0.0, None))
        if principal is not None and self._clock() < until:
            return principal
        return await self._reads.read(digest, lambda: self._look_up(key, digest))

    async def _look_up(self, key: str, digest: bytes) -> Principal:
        asked = self._clock()
        holder = await self._answered(lambda session: Keyring(session).find(key))
        if holder is None:
            raise InvalidApiKey
        principal = _admitted(holder)
        self._remember(digest, principal, asked + _good_for(holder))
        if self._last_used is not None:
            self._last_used.note(holder.key)
        return principal

    async def of_key(self, key_id: str) -> Principal:
        """What a key that was presented before may do now; nothing is remembered. Raises as `authenticate` does."""
        holder = await self._answered(lambda session: Keyring(session).get(key_id))
        if holder is None:
            raise InvalidApiKey
        if self._last_used is not None:
            self._last_used.note(holder.key)
        return _admitted(holder)

    async def is_revoked(self, principal: Principal) -> bool:
        """For open streams: whether the key has ended, or its tenant is suspended.

        A database that is away revokes nobody: running streams finish.
        """
        try:
            holder = await self._answered(lambda session: Keyring(session).get(principal.key_id))
        except StorageUnavailable:
            return False
        return holder is None or holder.is_suspended

    async def _answered(self, look: Callable[[Session], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._patience), self._db.view() as session:
                return await look(session)
        except (StorageAway, TimeoutError) as error:
            raise StorageUnavailable from error

    def _remember(self, digest: bytes, principal: Principal, until: float) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (until, principal)


def _admitted(holder: Holder) -> Principal:
    if holder.is_suspended:
        raise TenantSuspended
    key = holder.key
    return Principal(
        tenant_id=key.tenant_id,
        key_id=key.public_id,
        kind=key.kind,
        rejected_prediction=holder.rejected_prediction,
        project_id=holder.project_id,
        scopes=None if key.scopes is None else frozenset(key.scopes),
        models=None if key.allowed_models is None else frozenset(key.allowed_models),
        holdout_includes_prediction=holder.holdout_includes_prediction,
    )


def _good_for(holder: Holder) -> float:
    """Seconds for which the answer may be remembered: a key that ends sooner is asked for again then."""
    ends_at = holder.key.ends_at
    left = REMEMBER_SECONDS if ends_at is None else (ends_at - datetime.now(UTC)).total_seconds()
    return min(REMEMBER_SECONDS, left)


def _presented(headers: Mapping[str, str]) -> str | None:
    """The key a request carries. `headers` has lower-case names or compares without case, as starlette's do."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip() or None

"""API keys: `sk-sg-<public id>-<secret>`. The public id names the key, the secret of 256 bits is kept as SHA-256.

A fast hash is right here: the secret is drawn at random, so there is no dictionary to try.
"""

import hashlib
import hmac
import re
import secrets
import string
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from storage.database import Session
from storage.errors import KeyRefused
from storage.inserts import insert_once
from storage.models import api_keys
from storage.texts import check_text
from storage.values import ApiKey, KeyKind, NewKey

FORMAT = re.compile(r"sk-sg-([a-z0-9]{12})-([A-Za-z0-9_-]{43,128})")
ALPHABET = string.ascii_lowercase + string.digits
PUBLIC = [column for column in api_keys.c if column.name != "secret_sha256"]
TOUCH_EVERY = timedelta(minutes=1)


def parse_key(full: str) -> NewKey | None:
    """The parts of a key, None where it is not one."""
    match = FORMAT.fullmatch(full)
    return NewKey(match[1], match[2]) if match else None


def parse_preset(full: str) -> NewKey:
    """The parts of a key that someone chose. Raises KeyRefused with the reason."""
    parts = parse_key(full)
    if parts is None:
        raise KeyRefused(
            "The preset key is not of the form sk-sg-<12 lower-case letters or digits>-<43 to 128 letters, digits, "
            "'-' or '_'>. Leave it unset to have one made."
        )
    if len(set(parts.secret)) < 10:
        raise KeyRefused("The preset key's secret has fewer than 10 different characters; use a random one.")
    return parts


class ApiKeys:
    """The keys, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self, tenant_id: str, kind: KeyKind, name: str, preset: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        """Raises KeyRefused where `preset` has the wrong form or its public id is taken."""
        check_text("key name", name, 256)
        new = draw_key() if preset is None else parse_preset(preset)
        if not await self._insert(new, tenant_id, kind, name, expires_at):
            raise KeyRefused(f"The key's public id {new.public_id} already belongs to a key; choose another.")
        return new

    async def ensure(self, tenant_id: str, kind: KeyKind, name: str, full_key: str) -> bool:
        """See that this very key exists; True where it is new. One that was revoked stays revoked.

        Raises KeyRefused where the public id belongs to another secret, tenant or kind.
        """
        new = parse_preset(full_key)
        if await self._insert(new, tenant_id, kind, name, None):
            return True
        statement = select(api_keys).where(api_keys.c.public_id == new.public_id)
        row = (await self._session.execute(statement)).one()
        is_same = hmac.compare_digest(_digest(new.secret), row.secret_sha256)
        if not is_same or (row.tenant_id, row.kind) != (tenant_id, kind):
            raise KeyRefused(
                f"The {kind} key's public id {new.public_id} already belongs to another key; choose another key."
            )
        return False

    async def find(self, full_key: str) -> ApiKey | None:
        """The active key this is; None whatever is wrong with it. Takes the same path for a known public id or not."""
        parts = parse_key(full_key)
        if parts is None:
            return None
        statement = select(api_keys).where(api_keys.c.public_id == parts.public_id)
        row = (await self._session.execute(statement)).one_or_none()
        stored = "" if row is None else row.secret_sha256
        is_right = hmac.compare_digest(_digest(parts.secret), stored.rjust(64, "0"))
        if row is None or not is_right:
            return None
        key = ApiKey(**{column.name: row._mapping[column.name] for column in PUBLIC})
        return key if key.is_active(datetime.now(UTC)) else None

    async def get(self, public_id: str) -> ApiKey | None:
        row = (await self._session.execute(select(*PUBLIC).where(api_keys.c.public_id == public_id))).one_or_none()
        return None if row is None else ApiKey(**row._mapping)

    async def list(self, tenant_id: str | None = None) -> list[ApiKey]:
        """Oldest first; of one tenant, or of all."""
        statement = select(*PUBLIC).order_by(api_keys.c.created_at, api_keys.c.public_id)
        if tenant_id is not None:
            statement = statement.where(api_keys.c.tenant_id == tenant_id)
        return [ApiKey(**row._mapping) for row in await self._session.execute(statement)]

    async def revoke(self, public_id: str) -> bool:
        """For ever. False where there is no such key or it was revoked before."""
        statement = (
            update(api_keys)
            .where(api_keys.c.public_id == public_id, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=datetime.now(UTC))
        )
        return (await self._session.execute(statement)).rowcount == 1

    async def _insert(self, new: NewKey, tenant_id: str, kind: KeyKind, name: str, expires_at: datetime | None) -> bool:
        values = {
            "public_id": new.public_id,
            "tenant_id": tenant_id,
            "kind": kind,
            "name": name,
            "secret_sha256": _digest(new.secret),
            "created_at": datetime.now(UTC),
            "expires_at": expires_at,
        }
        return await insert_once(self._session, api_keys, values)

    async def touch(self, key: ApiKey) -> None:
        """Note that the key was used now; `needs_touch` says when that is worth a write."""
        now = datetime.now(UTC)
        statement = update(api_keys).where(api_keys.c.public_id == key.public_id).values(last_used_at=now)
        await self._session.execute(statement)


def needs_touch(key: ApiKey, now: datetime) -> bool:
    return key.last_used_at is None or now - key.last_used_at >= TOUCH_EVERY


def draw_key() -> NewKey:
    """A new random key; nobody knows it yet."""
    return NewKey("".join(secrets.choice(ALPHABET) for _ in range(12)), secrets.token_urlsafe(32))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

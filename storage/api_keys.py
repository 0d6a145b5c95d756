"""API keys as they are made, listed, replaced and ended. A key's secret is never kept, only its digest.

A key that was revoked, or whose overlap is over, is gone: it is neither found nor listed.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, or_, select, update

from storage.database import Session
from storage.errors import KeyRefused
from storage.inserts import insert_once
from storage.key_format import digest, draw_key, parse_preset
from storage.models import api_keys
from storage.paging import Cursor, page
from storage.texts import check_text
from storage.values import ApiKey, KeyKind, NewKey, default_project

PUBLIC = [column for column in api_keys.c if column.name != "secret_sha256"]
TOUCH_EVERY = timedelta(minutes=1)
_k = api_keys.c


@dataclass(frozen=True, slots=True)
class KeyScope:
    """Which keys: those of a tenant, and of these kinds; of one project or service account where given."""

    tenant_id: str
    kinds: Sequence[KeyKind]
    project_id: str | None = None
    service_account_id: str | None = None


class ApiKeys:
    """The keys, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        tenant_id: str,
        kind: KeyKind,
        name: str,
        preset: str | None = None,
        expires_at: datetime | None = None,
        **more: Any,
    ) -> NewKey:
        """`more`: other members of `ApiKey`. Raises KeyRefused where `preset` has the wrong form or its id is taken."""
        new = draw_key() if preset is None else parse_preset(preset)
        if not await self._insert(new, tenant_id, kind, name, expires_at=expires_at, **more):
            raise KeyRefused(f"The key's public id {new.public_id} already belongs to a key; choose another.")
        return new

    async def ensure(self, tenant_id: str, kind: KeyKind, name: str, full_key: str) -> bool:
        """See that this very key exists; True where it is new. One that was revoked stays revoked.

        Raises KeyRefused where the public id belongs to another secret, tenant or kind.
        """
        new = parse_preset(full_key)
        if await self._insert(new, tenant_id, kind, name):
            return True
        row = (await self._session.execute(select(api_keys).where(_k.public_id == new.public_id))).one()
        is_same = hmac.compare_digest(digest(new.secret), row.secret_sha256)
        if not is_same or (row.tenant_id, row.kind) != (tenant_id, kind):
            raise KeyRefused(
                f"The {kind} key's public id {new.public_id} already belongs to another key; choose another key."
            )
        return False

    async def get(self, public_id: str, scope: KeyScope | None = None, *, for_update: bool = False) -> ApiKey | None:
        """Without a scope: any key, also one that has ended."""
        statement = (select(*PUBLIC) if scope is None else _within(scope)).where(_k.public_id == public_id)
        row = (await self._session.execute(statement.with_for_update() if for_update else statement)).one_or_none()
        return None if row is None else ApiKey(**row._mapping)

    async def page(self, scope: KeyScope, cursor: Cursor) -> tuple[list[ApiKey], bool]:
        """In the order they were made, and whether more follow."""
        rows, has_more = await page(self._session, _within(scope), _k.created_at, _k.public_id, cursor)
        return [ApiKey(**row._mapping) for row in rows], has_more

    async def list(self, tenant_id: str | None = None) -> "list[ApiKey]":
        """Oldest first, also those that have ended; of one tenant, or of all."""
        statement = select(*PUBLIC).order_by(_k.created_at, _k.public_id)
        if tenant_id is not None:
            statement = statement.where(_k.tenant_id == tenant_id)
        return [ApiKey(**row._mapping) for row in await self._session.execute(statement)]

    async def update(self, key: ApiKey, **members: Any) -> ApiKey:
        changed = update(api_keys).where(_k.public_id == key.public_id)
        row = await self._session.execute(changed.values(version=key.version + 1, **members).returning(*PUBLIC))
        return ApiKey(**row.one()._mapping)

    async def rotate(self, key: ApiKey, overlap: timedelta, **more: Any) -> NewKey:
        """Another key in its place: the old one is good for `overlap` yet, then it has ended."""
        kept = {name: getattr(key, name) for name in ("project_id", "service_account_id", "scopes", "allowed_models")}
        kept |= {"expires_at": key.expires_at, "rotated_from": key.public_id}
        new = await self.create(key.tenant_id, key.kind, key.name, **(kept | more))
        await self.update(key, overlap_until=datetime.now(UTC) + overlap)
        return new

    async def revoke(self, public_id: str) -> bool:
        """For ever. False where there is no such key or it was revoked before."""
        statement = update(api_keys).where(_k.public_id == public_id, _k.revoked_at.is_(None))
        return (await self._session.execute(statement.values(revoked_at=datetime.now(UTC)))).rowcount == 1

    async def revoke_of(self, service_account_id: str) -> Sequence[str]:
        """Every key of a service account; returns those that this ended."""
        statement = update(api_keys).where(_k.service_account_id == service_account_id, _k.revoked_at.is_(None))
        ended = statement.values(revoked_at=datetime.now(UTC)).returning(_k.public_id)
        return sorted((await self._session.scalars(ended)).all())

    async def touch(self, public_ids: Sequence[str]) -> None:
        """Note that these keys were used now; `needs_touch` says when that is worth a write."""
        statement = update(api_keys).where(_k.public_id.in_(public_ids))
        await self._session.execute(statement.values(last_used_at=datetime.now(UTC)))

    async def _insert(self, new: NewKey, tenant_id: str, kind: KeyKind, name: str, **more: Any) -> bool:
        check_text("key name", name, 256)
        values = {
            "public_id": new.public_id,
            "tenant_id": tenant_id,
            "project_id": default_project(tenant_id) if kind == "inference" else None,
            "kind": kind,
            "name": name,
            "secret_sha256": digest(new.secret),
            "created_at": datetime.now(UTC),
        }
        return await insert_once(self._session, api_keys, values | more)


def needs_touch(key: ApiKey, now: datetime) -> bool:
    return key.last_used_at is None or now - key.last_used_at >= TOUCH_EVERY


def _within(scope: KeyScope) -> Select[Any]:
    statement = select(*PUBLIC).where(
        _k.tenant_id == scope.tenant_id,
        _k.kind.in_(scope.kinds),
        _k.revoked_at.is_(None),
        or_(_k.overlap_until.is_(None), _k.overlap_until > datetime.now(UTC)),
    )
    if scope.project_id is not None:
        statement = statement.where(_k.project_id == scope.project_id)
    if scope.service_account_id is not None:
        statement = statement.where(_k.service_account_id == scope.service_account_id)
    return statement

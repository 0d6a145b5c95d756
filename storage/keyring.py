"""Whose key is it: a key, its tenant and its project, found in one look."""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, func, literal, select

from storage.api_keys import PUBLIC
from storage.database import Session
from storage.key_format import digest, parse_key
from storage.models import api_keys, projects, tenants
from storage.values import ApiKey, RejectedPolicy, default_project

_SECRET = api_keys.c.secret_sha256
_OF_TENANT = (
    tenants.c.rejected_prediction.label("policy"),
    tenants.c.holdout_includes_prediction,
    tenants.c.suspended_at.label("tenant_suspended_at"),
    projects.c.archived_at.label("project_archived_at"),
)


@dataclass(frozen=True, slots=True)
class Holder:
    """An active key, and what it may stand on."""

    key: ApiKey
    project_id: str
    rejected_prediction: RejectedPolicy
    is_suspended: bool
    """Its tenant is, and the key is no operator's: operators must be able to resume one."""
    holdout_includes_prediction: bool = False


class Keyring:
    """Keys as they are presented, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find(self, full_key: str) -> Holder | None:
        """None whatever is wrong with the key. Takes the same path for a known public id or not."""
        parts = parse_key(full_key)
        if parts is None:
            return None
        statement = _holders().add_columns(_SECRET).where(api_keys.c.public_id == parts.public_id)
        row = (await self._session.execute(statement)).one_or_none()
        stored = "" if row is None else row.secret_sha256
        is_right = hmac.compare_digest(digest(parts.secret), stored.rjust(64, "0"))
        return _holder(row) if row is not None and is_right else None

    async def get(self, public_id: str) -> Holder | None:
        """What a key found before is now; None once it has ended."""
        row = (await self._session.execute(_holders().where(api_keys.c.public_id == public_id))).one_or_none()
        return None if row is None else _holder(row)


def _holders() -> Select[Any]:
    """A key without a project belongs to its tenant's default one."""
    project = func.coalesce(api_keys.c.project_id, literal("proj_") + api_keys.c.tenant_id)
    joined = api_keys.join(tenants, tenants.c.id == api_keys.c.tenant_id).outerjoin(projects, projects.c.id == project)
    return select(*PUBLIC, *_OF_TENANT).select_from(joined)


def _holder(row: Row[Any]) -> Holder | None:
    key = ApiKey(**{column.name: row._mapping[column.name] for column in PUBLIC})
    if not key.is_active(datetime.now(UTC)) or row.project_archived_at is not None:
        return None
    return Holder(
        key=key,
        project_id=key.project_id or default_project(key.tenant_id),
        rejected_prediction=row.policy,
        is_suspended=row.tenant_suspended_at is not None and key.kind != "operator",
        holdout_includes_prediction=row.holdout_includes_prediction,
    )

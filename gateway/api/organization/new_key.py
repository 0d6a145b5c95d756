"""Making and replacing keys, the same for those of projects and those of admins: how long, with which scopes."""

from datetime import UTC, datetime, timedelta

from gateway.access import scopes_of
from gateway.auth import Principal
from gateway.errors import Conflict, InvalidRequest, PermissionDenied
from gateway.openai.organization_schema import KeyRotate
from storage.api_keys import ApiKeys
from storage.database import Session
from storage.values import ApiKey, KeyKind, NewKey


def ends_at(lifetime: int | None) -> datetime | None:
    return None if lifetime is None else datetime.now(UTC) + timedelta(seconds=lifetime)


def granted(kind: KeyKind, asked: tuple[str, ...], maker: Principal) -> list[str] | None:
    """The scopes of a key; None: all of its kind. No key is made that may do more than its maker.

    Raises InvalidRequest for a scope its kind cannot hold, PermissionDenied for one its maker does not.
    """
    for scope in asked:
        if scope not in scopes_of(kind):
            raise InvalidRequest(f"A key of this kind may hold {', '.join(scopes_of(kind))}.", "scopes")
    limit = maker.scopes if kind != "inference" else None
    if limit is not None and not asked:
        return sorted(limit.intersection(scopes_of(kind)))
    if limit is not None and not limit.issuperset(asked):
        raise PermissionDenied("A key cannot be given scopes that the key sent does not have.")
    return sorted(set(asked)) or None


async def made(session: Session, public_id: str) -> ApiKey:
    """A key as this unit of work has made or changed it."""
    key = await ApiKeys(session).get(public_id)
    assert key is not None
    return key


async def rotated(session: Session, key: ApiKey, asked: KeyRotate) -> NewKey:
    """The key in its place. Raises Conflict where another has it already, or there is nothing to replace."""
    if key.overlap_until is not None:
        raise Conflict("This key was rotated before; rotate the one that replaced it.")
    if not key.is_active(datetime.now(UTC)):
        raise Conflict("This key has expired; make a new one.")
    lifetime = key.expires_at - key.created_at if key.expires_at else None
    expires_at = ends_at(asked.expires_in_seconds) or (datetime.now(UTC) + lifetime if lifetime else None)
    return await ApiKeys(session).rotate(key, timedelta(seconds=asked.overlap_seconds), expires_at=expires_at)

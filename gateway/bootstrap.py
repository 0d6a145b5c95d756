"""The first start: tenant, keys and secret; and what every later start makes sure of.

`credentials.json` is written just before the database commits, so a start that is killed in between is completed by
the next one.
Keys are printed by the command line, and only those that `Credentials.new` names.
"""

import json
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway.home import HomeLock, HomeRefused, prepare_home, read_private, take_home, write_private
from gateway.secret import audit_key, check_secret, load_secret, subkey
from storage import Database
from storage.api_keys import ApiKeys
from storage.audit import Audit
from storage.database import Session
from storage.errors import KeyRefused
from storage.ids import uuid7
from storage.key_format import draw_key, parse_preset
from storage.ledger import Ledger
from storage.meta import Meta
from storage.tenants import Tenants
from storage.values import KeyKind
from storage.values.audit import Actor

__all__ = [
    "Credentials",
    "HomeLock",
    "HomeRefused",
    "bootstrap",
    "check_presets",
    "new_epoch",
    "read_credentials",
    "reset_admin",
    "settle_dead",
    "subkey",
    "take_home",
]

KEYS: dict[str, KeyKind] = {"inference_key": "inference", "operator_key": "operator"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What this home knows: its keys and the installation's secret."""

    home_id: str
    tenant_id: str
    inference_key: str = field(repr=False)
    operator_key: str = field(repr=False)
    secret: bytes = field(default=b"", repr=False)
    new: frozenset[str] = frozenset()
    """Which of `inference_key` and `operator_key` this start drew, and are to be shown once; never a preset one."""


def check_presets(home: Path, *, bootstrap_key: str | None, admin_key: str | None, secret: str | None) -> None:
    """Before anything is fetched or made. Raises HomeRefused with the reason."""
    _chosen(read_credentials(home), bootstrap_key, admin_key)
    check_secret(secret)


async def bootstrap(
    home: Path, db: Database, *, bootstrap_key: str | None, admin_key: str | None, secret: str | None = None
) -> Credentials:
    """Make or complete a home. A second start changes nothing. Raises HomeRefused with the reason."""
    prepare_home(home)
    credentials = _chosen(read_credentials(home), bootstrap_key, admin_key)
    loaded = load_secret(home, secret)
    async with db.unit() as session:
        await _same_secret(Meta(session), loaded)
        new = await _ensure(Tenants(session), ApiKeys(session), credentials)
        for name in new:
            await _record(session, loaded, "first-start", "api_key.created", getattr(credentials, name))
        # Before the commit: a key must never be in the database alone, where only its hash would be left.
        _write(home, credentials)
    preset = {bootstrap_key, admin_key}
    drawn = frozenset(name for name in new if getattr(credentials, name) not in preset)
    return replace(credentials, secret=loaded, new=drawn)


async def reset_admin(home: Path, db: Database, secret: str | None = None) -> str:
    """A new operator key in place of the one this home holds, which is revoked. Works on the machine only."""
    credentials = read_credentials(home)
    if credentials is None:
        raise HomeRefused(f"There is no credentials.json in {home}. Start the gateway once, or set SPECGATE_HOME.")
    key = draw_key().key
    async with db.unit() as session:
        keys = ApiKeys(session)
        was_active = await keys.revoke(parse_preset(credentials.operator_key).public_id)
        await keys.ensure(credentials.tenant_id, "operator", "operator (reset)", key)
        loaded = load_secret(home, secret)
        if was_active:
            await _record(session, loaded, "reset-admin", "api_key.deleted", credentials.operator_key)
        await _record(session, loaded, "reset-admin", "api_key.created", key)
        _write(home, replace(credentials, operator_key=key))
    return key


def read_credentials(home: Path) -> Credentials | None:
    """What `credentials.json` says; None before the first start."""
    text = read_private(home / "credentials.json")
    if text is None:
        return None
    try:
        credentials = Credentials(**json.loads(text))
        for name in KEYS:
            parse_preset(getattr(credentials, name))
        return credentials
    except (ValueError, TypeError, KeyRefused) as error:
        raise HomeRefused(
            f"{home / 'credentials.json'} is damaged. Move it away; the next start makes new keys."
        ) from error


def new_epoch(credentials: Credentials) -> str:
    """The name of one run of a gateway: the owner of the requests it opens."""
    return f"{credentials.home_id}:{uuid7()}"


async def settle_dead(db: Database, epoch: str) -> int:
    """Settle what earlier runs on this home left open (the home's lock says they are gone); returns how many."""
    home_id = epoch.partition(":")[0]
    async with db.unit() as session:
        ledger = Ledger(session)
        owners = {entry.owner for entry in await ledger.unsettled()}
        return await ledger.reconcile({o for o in owners if o.partition(":")[0] == home_id and o != epoch})


def _chosen(found: Credentials | None, bootstrap_key: str | None, admin_key: str | None) -> Credentials:
    """Preset keys first, then the keys of earlier starts, then new ones."""
    _check_preset("SPECGATE_BOOTSTRAP_KEY", bootstrap_key)
    _check_preset("SPECGATE_ADMIN_KEY", admin_key)
    start = found or Credentials(secrets.token_hex(8), "default", draw_key().key, draw_key().key)
    inference_key = bootstrap_key or start.inference_key
    operator_key = admin_key or start.operator_key
    if parse_preset(inference_key).public_id == parse_preset(operator_key).public_id:
        raise HomeRefused("The inference key and the operator key have the same public id; preset two different keys.")
    return replace(start, inference_key=inference_key, operator_key=operator_key)


def _check_preset(variable: str, preset: str | None) -> None:
    try:
        if preset is not None:
            parse_preset(preset)
    except KeyRefused as error:
        raise HomeRefused(f"{variable}: {error}") from error


async def _ensure(tenants: Tenants, keys: ApiKeys, credentials: Credentials) -> list[str]:
    tenant = await tenants.ensure(credentials.tenant_id, credentials.tenant_id)
    try:
        return [
            name
            for name, kind in KEYS.items()
            if await keys.ensure(tenant.id, kind, f"{kind} (first start)", getattr(credentials, name))
        ]
    except KeyRefused as error:
        raise HomeRefused(str(error)) from error


async def _record(session: Session, secret: bytes, actor: str, action: str, full_key: str) -> None:
    key = await ApiKeys(session).get(parse_preset(full_key).public_id)
    assert key is not None
    told = {"id": key.public_id, "kind": key.kind, "name": key.name}
    audit = Audit(session, audit_key(secret))
    before, after = (None, told) if action.endswith("created") else (told, None)
    await audit.record(Actor("system", actor), action, key.public_id, before, after, tenant_id=key.tenant_id)


async def _same_secret(meta: Meta, secret: bytes) -> None:
    """All gateways of one database must have one secret, or they would not find each other's cached prefixes."""
    mark = subkey(secret, b"fingerprint").hex()
    if await meta.settle_on("secret_fingerprint", mark) != mark:
        raise HomeRefused(
            "This database belongs to an installation with another secret. Set SPECGATE_SECRET to its value, "
            "or restore the file `secret` of its SPECGATE_HOME."
        )


def _write(home: Path, credentials: Credentials) -> None:
    kept = {name: getattr(credentials, name) for name in ("home_id", "tenant_id", *KEYS)}
    text = json.dumps(kept, indent=2) + "\n"
    if read_private(home / "credentials.json") != text:
        write_private(home / "credentials.json", text)

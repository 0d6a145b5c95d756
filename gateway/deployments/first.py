"""The deployment that the first start makes from the settings (SPECGATE_MODEL, …), and what later starts make of it.

The database is the truth. A setting that is given (by flag, environment or file) changes a member that settings set
last; one that an operator set through the API stays as it is, and the start says how to change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from gateway.deployments.changes import require_free_names
from gateway.deployments.document import document_of
from gateway.deployments.model_source import SourceRefused, find
from gateway.deployments.speculation import Speculation
from gateway.deployments.view import settable
from gateway.errors import Conflict
from gateway.home import HomeRefused
from gateway.secret import audit_key
from gateway.settings import Settings
from storage import Database
from storage.audit import Audit
from storage.database import Session
from storage.deployments import FIRST, Deployments
from storage.paging import Cursor
from storage.values.audit import Actor, AuditEvent, AuditQuery
from storage.values.deployments import Deployment, DeploymentSpec

MEMBERS = ("model", "device", "dtype", "max_model_len")
"""Settings that a deployment has too."""
REASON = "As the settings say."
EVENTS = 100


@dataclass(frozen=True, slots=True)
class Remark:
    """What a start tells. `patch`: how an operator changes what this start left alone."""

    text: str
    patch: Mapping[str, JsonValue] = field(default_factory=dict)


async def ensure_first(db: Database, settings: Settings, secret: bytes) -> list[Remark]:
    """Make it, or follow the settings. Raises HomeRefused where they name a model that there is not."""
    asked = first_spec(settings)
    async with db.unit() as session:
        deployments = Deployments(session)
        await deployments.ensure_first(
            asked, Speculation(holdout_rate=settings.holdout_rate).model_dump(mode="json"), "Made at the first start."
        )
        kept = await deployments.get(FIRST)
        wanted = {} if kept is None else _differences(kept.spec, asked, settings)
        theirs = await _set_by_operators(Audit(session, audit_key(secret)), set(wanted)) if wanted else set()
    if kept is None or not wanted:
        return []
    ours = {name: value for name, value in wanted.items() if name not in theirs}
    remarks = [_left(kept.spec, {name: wanted[name] for name in wanted if name in theirs})] if theirs else []
    return [*([await _follow(db, settings, secret, ours)] if ours else []), *remarks]


def first_spec(settings: Settings) -> DeploymentSpec:
    path = Path(settings.model).expanduser()
    return DeploymentSpec(
        name=model_name(settings.model),
        model=str(path.resolve()) if path.is_dir() else settings.model,
        device=settings.device,
        dtype=settings.dtype,
        max_model_len=settings.max_model_len,
    )


def model_name(model: str) -> str:
    """What clients call it: the catalogue's name, or a folder's last part."""
    return Path(model).name if "/" in model else model


def _differences(kept: DeploymentSpec, asked: DeploymentSpec, settings: Settings) -> dict[str, Any]:
    """Of the settings that were given: a default asks for nothing."""
    given = [name for name in MEMBERS if name in settings.model_fields_set]
    return {name: getattr(asked, name) for name in given if getattr(asked, name) != getattr(kept, name)}


async def _set_by_operators(audit: Audit, members: set[str]) -> set[str]:
    """Which of them an operator changed last, as the audit log has it."""
    found: dict[str, bool] = {}
    after, has_more = None, True
    while has_more and members - found.keys():
        events, has_more = await audit.page(AuditQuery(targets=[FIRST]), Cursor(EVENTS, after=after))
        for event in events:
            for name in members - found.keys():
                if _touches(event, name):
                    found[name] = event.actor.kind == "api_key"
            after = event.id
    return {name for name, is_operators in found.items() if is_operators}


def _touches(event: AuditEvent, name: str) -> bool:
    """An erased event may have touched anything."""
    return event.is_erased or (event.before or {}).get(name) != (event.after or {}).get(name)


async def _follow(db: Database, settings: Settings, secret: bytes, changes: dict[str, Any]) -> Remark:
    if "model" in changes:
        await _require_model(changes["model"], settings.home)
    async with db.unit() as session:
        before = await Deployments(session).get(FIRST, for_update=True)
        assert before is not None
        spec = replace(before.spec, **changes)
        if "model" in changes and before.spec.name == model_name(before.spec.model):
            spec = _renamed(spec)
        try:
            others = [one for one in await Deployments(session).list() if one.id != FIRST]
            require_free_names(document_of(spec), others)
        except Conflict as conflict:
            return Remark(f"SPECGATE_MODEL is not followed. {conflict.message}")
        if spec != before.spec:  # two gateways that start at once make one change
            await _change(session, secret, before, spec)
    told = ", ".join(f"{name} {getattr(before.spec, name)} → {value}" for name, value in changes.items())
    name = before.spec.name if spec.name == before.spec.name else f"{before.spec.name}, now {spec.name},"
    return Remark(f"Deployment {name} was changed as the settings say: {told}.")


async def _require_model(model: str, home: Path) -> None:
    try:
        await find(model, home)
    except SourceRefused as refusal:
        raise HomeRefused(f"SPECGATE_MODEL: {refusal}") from refusal


def _renamed(spec: DeploymentSpec) -> DeploymentSpec:
    """Called what its model is called: an answer never bears the name of a model that is gone."""
    name = model_name(spec.model)
    return replace(spec, name=name, aliases=tuple(alias for alias in spec.aliases if alias.name != name))


async def _change(session: Session, secret: bytes, before: Deployment, spec: DeploymentSpec) -> None:
    deployments = Deployments(session)
    after, version = await deployments.change(before, spec), await deployments.version(FIRST, before.config_version)
    assert after is not None
    assert version is not None
    told = [settable(one, version) | {"version": one.version} for one in (before, after)]
    audit = Audit(session, audit_key(secret))
    await audit.record(Actor("system", "settings"), "deployment.updated", FIRST, told[0], told[1] | {"reason": REASON})


def _left(kept: DeploymentSpec, wanted: dict[str, Any]) -> Remark:
    told = ", ".join(
        f"SPECGATE_{name.upper()}={value} (it has {getattr(kept, name)})" for name, value in wanted.items()
    )
    return Remark(f"Not followed, as an operator set it for deployment {kept.name}: {told}. To change it:", wanted)

"""Deployments and their drafter configurations. The database is the truth; every gateway follows it.

A change says which version it changes: of two editors who read the same one, the second changes nothing. Drafter
configurations are only ever added: going back is a new version with an old content.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Row, and_, literal, select, update

from storage.database import Session
from storage.ids import uuid7
from storage.inserts import insert_once
from storage.models import deployments, drafter_configs
from storage.values.deployments import Alias, Deployment, DeploymentSpec, DrafterVersion

FIRST = "dep_default"
"""The id of the one that the first start makes: two gateways that start at once make one."""
Config = Mapping[str, JsonValue]
_d, _v = deployments.c, drafter_configs.c
_live = _d.deleted_at.is_(None)


class Deployments:
    """The deployments, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self, spec: DeploymentSpec, config: Config, author: str, reason: str, id: str | None = None
    ) -> Deployment | None:
        """None where the name is taken."""
        now = datetime.now(UTC)
        made = Deployment(id or f"dep_{uuid7()}", spec, 1, 1, now, now)
        values = {"id": made.id, "version": 1, "config_version": 1, "created_at": now, "updated_at": now}
        if not await insert_once(self._session, deployments, values | _columns(spec)):
            return None
        await self._add(DrafterVersion(made.id, 1, author, reason, now, config))
        return made

    async def ensure_first(self, spec: DeploymentSpec, config: Config, reason: str) -> None:
        """Where no deployment was ever made: make this one."""
        if await self._session.scalar(select(literal(1)).select_from(deployments).limit(1)) is None:
            await self.create(spec, config, "system", reason, FIRST)

    async def get(self, id: str, *, for_update: bool = False) -> Deployment | None:
        statement = select(deployments).where(_d.id == id, _live)
        row = (await self._session.execute(statement.with_for_update() if for_update else statement)).one_or_none()
        return None if row is None else _deployment(row)

    async def current(self) -> list[tuple[Deployment, DrafterVersion]]:
        """Each with the drafter configuration that is to be at work."""
        is_current = and_(_v.deployment_id == _d.id, _v.version == _d.config_version)
        columns = [column.label(f"v_{column.name}") for column in _v]
        rows = await self._session.execute(_all().add_columns(*columns).join(drafter_configs, is_current))
        return [(_deployment(row), _version(row, "v_")) for row in rows]

    async def change(self, old: Deployment, spec: DeploymentSpec) -> Deployment | None:
        """None where somebody changed it since `old` was read."""
        return await self._update(old, spec, old.config_version)

    async def configure(
        self, old: Deployment, spec: DeploymentSpec, config: Config, author: str, reason: str
    ) -> Deployment | None:
        """The same with a new drafter configuration."""
        new = await self._update(old, spec, old.config_version + 1)
        if new is not None:
            await self._add(DrafterVersion(new.id, new.config_version, author, reason, new.updated_at, config))
        return new

    async def delete(self, old: Deployment) -> bool:
        """False where somebody changed it since `old` was read."""
        statement = update(deployments).where(*_is(old)).values(deleted_at=datetime.now(UTC))
        return (await self._session.execute(statement)).rowcount == 1

    async def versions(self, id: str) -> list[DrafterVersion]:
        """Newest first."""
        statement = select(drafter_configs).where(_v.deployment_id == id).order_by(_v.version.desc())
        return [_version(row) for row in await self._session.execute(statement)]

    async def version(self, id: str, version: int) -> DrafterVersion | None:
        statement = select(drafter_configs).where(_v.deployment_id == id, _v.version == version)
        row = (await self._session.execute(statement)).one_or_none()
        return None if row is None else _version(row)

    async def names(self, ids: Iterable[str]) -> dict[str, str]:
        """What clients call them, also those that were deleted."""
        rows = await self._session.execute(select(_d.id, _d.name).where(_d.id.in_(set(ids))))
        return {row.id: row.name for row in rows}

    async def list(self) -> list[Deployment]:
        """Oldest first."""
        return [_deployment(row) for row in await self._session.execute(_all())]

    async def _update(self, old: Deployment, spec: DeploymentSpec, config_version: int) -> Deployment | None:
        now = datetime.now(UTC)
        values = {"version": old.version + 1, "config_version": config_version, "updated_at": now}
        done = await self._session.execute(update(deployments).where(*_is(old)).values(_columns(spec) | values))
        return Deployment(old.id, spec, old.version + 1, config_version, old.created_at, now) if done.rowcount else None

    async def _add(self, version: DrafterVersion) -> None:
        values = {field.name: getattr(version, field.name) for field in fields(version)}
        await self._session.execute(drafter_configs.insert().values(values | {"config": dict(version.config)}))


def _all() -> Any:
    return select(deployments).where(_live).order_by(_d.created_at, _d.id)


def _is(old: Deployment) -> list[Any]:
    return [_d.id == old.id, _d.version == old.version, _live]


def _columns(spec: DeploymentSpec) -> dict[str, Any]:
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return values | {"aliases": [asdict(alias) for alias in spec.aliases]}


def _deployment(row: Row[Any]) -> Deployment:
    values = {field.name: row._mapping[field.name] for field in fields(DeploymentSpec)}
    spec = DeploymentSpec(**values | {"aliases": tuple(Alias(**alias) for alias in row.aliases)})
    return Deployment(row.id, spec, row.version, row.config_version, row.created_at, row.updated_at)


def _version(row: Row[Any], prefix: str = "") -> DrafterVersion:
    return DrafterVersion(**{field.name: row._mapping[prefix + field.name] for field in fields(DrafterVersion)})

"""What stands between a file and a server: a list of changes, each with how to make it.

A change of what another author changed last is told apart (`author`): it is made only by force. The author of a
deployment is that of its newest drafter configuration; of all else, whoever the audit log names last.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gateway.api.limits import LimitsDocument
from gateway.api.merge_patch import differences, merge
from gateway.api.prices import PricesDocument
from gateway.cli.admin import Admin, Object
from gateway.cli.declared import (
    Declared,
    DeclaredDeployment,
    DeclaredKey,
    DeclaredProject,
    DeclaredTenant,
    given,
)
from gateway.home import write_private
from gateway.openai.organization_schema import TenantDocument

Action = Literal["create", "update", "delete"]
TENANTS, DEPLOYMENTS, PROJECTS = "/admin/v1/tenants", "/admin/v1/deployments", "/v1/organization/projects"
TENANT_MEMBERS = tuple(TenantDocument.model_fields)
SYSTEM = "system"
"""Who made what the first start made: nobody whose work could be lost."""
A_DAY = 86_400


@dataclass(frozen=True)
class Change:
    action: Action
    target: str
    make: Callable[[], object] = field(repr=False)
    differences: Sequence[Object] = ()
    author: str | None = None
    """Whose newer version it changes; None: ours, or nobody's."""

    def told(self) -> Object:
        named = {"action": self.action, "target": self.target, "author": self.author}
        return named | {"changes": list(self.differences)}


class Planner:
    """`folder`: where relative paths of the file begin."""

    def __init__(self, api: Admin, folder: Path, reason: str, prune: bool) -> None:
        self._api, self._folder, self._reason, self._prune = api, folder, reason, prune
        self._me = str(api.get("/v1/key")["id"])

    def changes(self, declared: Declared) -> list[Change]:
        """In the order in which they are to be made."""
        found: list[Change] = []
        if declared.deployments is not None:
            found += self._deployments(declared.deployments)
        for tenant in declared.tenants or ():
            found += self._tenant(tenant)
        return found

    def _deployments(self, wanted: Sequence[DeclaredDeployment]) -> Iterator[Change]:
        current = {one["name"]: one for one in self._api.all(DEPLOYMENTS)}
        for one in wanted:
            document = {name: value for name, value in given(one).items() if name != "prices"}
            if change := self._deployment(document, current.get(one.name)):
                yield change
            if one.prices is not None:
                yield from self._prices(one.name, one.prices, current.get(one.name))
        for name in current.keys() - {one.name for one in wanted} if self._prune else ():
            yield self._delete(
                f"deployment {name}", f"{DEPLOYMENTS}/{current[name]['id']}", self._author(current[name])
            )

    def _deployment(self, wanted: Object, current: Object | None) -> Change | None:
        target = f"deployment {wanted['name']}"
        if current is None:
            body = wanted | {"reason": self._reason}
            return Change("create", target, lambda: self._api.post(DEPLOYMENTS, body), _all(wanted))
        was = {name: current[name] for name in wanted}
        patch = {name: value for name, value in wanted.items() if merge(was[name], value) != was[name]}
        if not patch:
            return None
        path, body = f"{DEPLOYMENTS}/{current['id']}", patch | {"reason": self._reason}
        changed = list(differences(was, merge(was, wanted)))
        return Change("update", target, lambda: self._api.patch(path, body), changed, self._author(current))

    def _prices(self, name: str, wanted: PricesDocument, deployment: Object | None) -> Iterator[Change]:
        asked, body = asdict(wanted.price), given(wanted) | {"reason": self._reason}
        current = self._api.get(f"{DEPLOYMENTS}/{deployment['id']}/prices") if deployment else {}
        changed = list(differences({item: current.get(item) for item in asked}, asked))

        def make() -> Object:
            found = self._api.deployment(name)
            assert found is not None
            return self._api.put(f"{DEPLOYMENTS}/{found['id']}/prices", body)

        if changed:
            author = self._other(current["history"][0]["author"]) if current.get("history") else None
            yield Change("update", f"prices of {name}", make, changed, author)

    def _tenant(self, wanted: DeclaredTenant) -> Iterator[Change]:
        path, api = f"{TENANTS}/{wanted.id}", self._api.of(wanted.id)
        current = self._api.find(path)
        document = {name: value for name, value in given(wanted).items() if name in TENANT_MEMBERS}
        if current is None:
            body = {"id": wanted.id, "name": wanted.id} | document
            yield Change("create", f"tenant {wanted.id}", lambda: self._api.post(TENANTS, body), _all(body))
        else:
            yield from self._members(f"tenant {wanted.id}", path, document, current, api)
        yield from self._limits("tenant", wanted.id, wanted.limits, api, current is not None)
        if wanted.projects is not None:
            yield from self._projects(wanted.projects, api, wanted.id, current is not None)

    def _projects(self, wanted: Sequence[DeclaredProject], api: Admin, tenant: str, exists: bool) -> Iterator[Change]:
        current = {one["name"]: one for one in api.all(PROJECTS)} if exists else {}
        for one in wanted:
            yield from self._project(one, api, tenant, current.get(one.name))
        for name in current.keys() - {one.name for one in wanted} if self._prune else ():
            if not current[name]["is_default"]:
                archive = partial(api.post, f"{PROJECTS}/{current[name]['id']}/archive")
                yield Change("delete", f"project {name} of {tenant}", archive)

    def _project(self, wanted: DeclaredProject, api: Admin, tenant: str, current: Object | None) -> Iterator[Change]:
        name = f"{wanted.name} of {tenant}"
        if current is None:
            body = {"name": wanted.name}
            yield Change("create", f"project {name}", lambda: api.post(PROJECTS, body), _all(body))

        def id_of() -> str:
            """Known only once it is made."""
            found = current or api.project(wanted.name)
            assert found is not None
            return str(found["id"])

        if wanted.limits is not None:
            yield from self._limits_of(
                f"limits of project {name}", "project", id_of, wanted.limits, current is not None, api
            )
        if wanted.keys is not None:
            yield from self._keys(wanted.keys, api, id_of, name, current is not None)

    def _keys(
        self, wanted: Sequence[DeclaredKey], api: Admin, project: Callable[[], str], of: str, exists: bool
    ) -> Iterator[Change]:
        found = api.all(f"{PROJECTS}/{project()}/api_keys") if exists else []
        current = {one["name"]: one for one in found if one["overlap_until"] is None}
        for key in wanted:
            yield from self._key(key, api, project, of, current.get(key.name))
        mine = [one for one in current.values() if one["owner"]["service_account"]]
        for one in mine if self._prune else ():
            if one["name"] not in {key.name for key in wanted}:
                yield self._delete(
                    f"key {one['name']} of {of}", f"{PROJECTS}/{project()}/api_keys/{one['id']}", api=api
                )

    def _key(
        self, wanted: DeclaredKey, api: Admin, project: Callable[[], str], of: str, current: Object | None
    ) -> Iterator[Change]:
        options = {name: value for name, value in given(wanted).items() if name in ("scopes", "allowed_models")}
        target = f"key {wanted.name} of {of}"
        if current is None:
            yield Change("create", target, lambda: self._make_key(wanted, options, api, project()), _all(given(wanted)))
        else:
            path = f"{PROJECTS}/{project()}/api_keys/{current['id']}"
            was = {name: current[name] for name in options}
            changed = list(differences(was, options))
            if changed:
                author = self._last_author(api, str(current["id"]))
                yield Change("update", target, lambda: api.post(path, options), changed, author)
        if wanted.limits is not None:

            def id_of() -> str:
                keys = api.all(f"{PROJECTS}/{project()}/api_keys")
                return next(str(one["id"]) for one in keys if one["name"] == wanted.name)

            yield from self._limits_of(f"limits of {target}", "key", id_of, wanted.limits, current is not None, api)

    def _make_key(self, wanted: DeclaredKey, options: Object, api: Admin, project: str) -> None:
        """Its place is looked at first, so that no key is made whose secret nobody has."""
        place = self._folder / wanted.secret_file
        place.parent.mkdir(parents=True, exist_ok=True)
        write_private(place, "")
        days = wanted.expires_in_days
        body = {"name": wanted.name} | options | ({"expires_in_seconds": days * A_DAY} if days else {})
        made = api.post(f"{PROJECTS}/{project}/service_accounts", body)
        write_private(place, f"{made['api_key']['value']}\n")

    def _limits(self, scope: str, id: str, wanted: LimitsDocument | None, api: Admin, exists: bool) -> Iterator[Change]:
        if wanted is not None:
            yield from self._limits_of(f"limits of {scope} {id}", scope, lambda: id, wanted, exists, api)

    def _limits_of(
        self, target: str, scope: str, id: Callable[[], str], wanted: LimitsDocument, exists: bool, api: Admin
    ) -> Iterator[Change]:
        asked = given(wanted)
        if not exists:
            make = lambda: self._api.patch(f"/admin/v1/limits/{scope}/{id()}", asked)  # noqa: E731
            yield Change("update", target, make, _all(asked))
            return
        path = f"/admin/v1/limits/{scope}/{id()}"
        yield from self._members(target, path, asked, self._api.get(path), api, f"{scope}:{id()}")

    def _members(
        self, target: str, path: str, wanted: Object, current: Object, api: Admin, audited: str | None = None
    ) -> Iterator[Change]:
        was = {name: current[name] for name in wanted}
        changed = list(differences(was, wanted))
        if changed:
            author = self._last_author(api, audited or str(current["id"]))
            yield Change("update", target, lambda: self._api.patch(path, wanted), changed, author)

    def _delete(self, target: str, path: str, author: str | None = None, api: Admin | None = None) -> Change:
        return Change("delete", target, lambda: (api or self._api).delete(path, self._reason), (), author)

    def _author(self, deployment: Object) -> str | None:
        """Not that of its drafters alone: whoever changed aliases or sizes counts too."""
        return self._last_author(self._api, str(deployment["id"]))

    def _last_author(self, api: Admin, id: str) -> str | None:
        events = api.get("/v1/organization/audit_logs", resource_ids=id, limit=1)["data"]
        by_key = [event["actor"]["name"] for event in events if event["actor"]["type"] == "api_key"]
        return self._other(by_key[0]) if by_key else None

    def _other(self, author: str) -> str | None:
        return None if author in (self._me, SYSTEM) else author


def _all(wanted: Object) -> list[Any]:
    return list(differences({}, wanted))

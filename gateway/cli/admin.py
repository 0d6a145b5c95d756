"""The admin API of a running server, as the commands speak it: pages joined, changes named by their version.

Nothing here touches the database: what a command can do, any client with the same key can.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import httpx
import typer
from rich.table import Table

from gateway.cli.console import load_settings, print_json, visible, wide_console
from gateway.cli.remote import BaseUrl, admin_address, connect, credentials, require_ok

Object = dict[str, Any]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
Organization = Annotated[str | None, typer.Option("--tenant", help="The tenant to act in; else that of the key.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the change.")]
TIMES = ("_at", "_until")
"""How members that are unix seconds end; people read them as UTC."""
__all__ = ["Admin", "AsJson", "BaseUrl", "Object", "Organization", "Reason", "admin", "show"]


class Admin:
    """`tenant`: sent as OpenAI-Organization."""

    def __init__(self, http: httpx.Client, tenant: str | None = None) -> None:
        self._http = http
        self._headers = {"OpenAI-Organization": tenant} if tenant else {}

    def of(self, tenant: str | None) -> "Admin":
        return Admin(self._http, tenant)

    def get(self, path: str, **query: Any) -> Object:
        return self._answer("GET", path, params=query)

    def find(self, path: str) -> Object | None:
        """None where there is no such thing."""
        response = self._http.get(path, headers=self._headers)
        return None if response.status_code == 404 else self._read(response)

    def all(self, path: str, **query: Any) -> list[Object]:
        """Every page of a list."""
        found: list[Object] = []
        while True:
            page = self.get(path, **query)
            found += page["data"]
            if not page["has_more"]:
                return found
            query["after"] = page["last_id"]

    def post(self, path: str, body: Object | None = None, **query: Any) -> Object:
        return self._answer("POST", path, json=body or {}, params=query)

    def patch(self, path: str, body: Object, **query: Any) -> Object:
        """Of the version that is there now."""
        return self._answer("PATCH", path, self._match(path), json=body, params=query)

    def put(self, path: str, body: Object) -> Object:
        """In place of the version that is there now."""
        return self._answer("PUT", path, self._match(path), json=body)

    def delete(self, path: str, reason: str | None = None) -> Object:
        return self._answer("DELETE", path, {"x-specgate-reason": reason} if reason else None)

    def deployment(self, name: str) -> Object | None:
        """By id or by name."""
        return next((one for one in self.all("/admin/v1/deployments") if name in (one["id"], one["name"])), None)

    def project(self, name: str | None) -> Object | None:
        """By id or by name; None: the default one."""
        for one in self.all("/v1/organization/projects"):
            if one["is_default"] if name is None else name in (one["id"], one["name"]):
                return one
        return None

    def _match(self, path: str) -> Object:
        current = self._http.get(path, headers=self._headers)
        require_ok(current)
        return {"If-Match": current.headers["etag"]}

    def _answer(self, method: str, path: str, headers: Object | None = None, **more: Any) -> Object:
        return self._read(self._http.request(method, path, headers=self._headers | (headers or {}), **more))

    def _read(self, response: httpx.Response) -> Object:
        require_ok(response)
        found: Object = response.json()
        return found


@contextmanager
def admin(base_url: str | None, tenant: str | None = None) -> Iterator[Admin]:
    """With the operator key that `credentials.json` of this home holds."""
    settings = load_settings()
    with connect(admin_address(settings, base_url), credentials(settings).operator_key) as http:
        yield Admin(http, tenant)


def show(found: Object | Sequence[Object], columns: Sequence[str], as_json: bool) -> None:
    """One object as lines of `name  value`, several as a table; `a.b` is a member of a member."""
    if as_json:
        print_json(found)
        return
    if isinstance(found, dict):
        table = Table("", "", box=None, pad_edge=False, show_header=False)
        for name in columns:
            table.add_row(name, _told(name, _member(found, name)))
    else:
        table = _columns(columns)
        for one in found:
            table.add_row(*(_told(name, _member(one, name)) for name in columns))
    wide_console().print(table)


def _columns(names: Sequence[str]) -> Table:
    """Nothing is cut where the terminal is narrow: an id stays in one piece, the rest is folded."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name.partition(".")[0], overflow="fold", no_wrap=name == "id")
    return table


def _member(found: Object, name: str) -> Any:
    value: Any = found
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _told(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return visible(", ".join(map(str, value))) or "-"
    if isinstance(value, int) and name.endswith(TIMES):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"
    return visible(str(value))

"""`specgate deployments`: what models are served, and what drafts for each."""

import json
import time
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from gateway.cli.admin import Admin, AsJson, BaseUrl, Object, Reason, admin, show
from gateway.cli.console import print_json, stop, wide_console

app = typer.Typer(help="Look after deployments.", no_args_is_help=True)
PATH = "/admin/v1/deployments"
COLUMNS = ("id", "name", "model", "enabled", "replicas", "state.phase", "drafts", "speculation_version.version")
LISTED = tuple(name for name in COLUMNS if name != "drafts")
"""A sentence for each would be most of the table; `show` has it."""
VERSIONS = ("version", "author", "reason", "created_at")
Name = Annotated[str, typer.Argument(help="Its name or id.")]
Members = Annotated[str, typer.Argument(help="Members to change, as a JSON object (RFC 7396: null takes away).")]
DryRun = Annotated[bool, typer.Option(help="Say what would change and the memory it needs.")]


@app.command("list")
def list_all(as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Every deployment, as the server that is asked sees it."""
    with admin(base_url) as api:
        show(api.all(PATH), LISTED, as_json)


@app.command("show")
def retrieve(name: Name, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """One deployment, whole."""
    with admin(base_url) as api:
        found = _found(api, name)
        show(found, [*(one for one in found if one not in ("object", "state")), "state.phase"], as_json)


@app.command()
def create(
    name: str,
    model: Annotated[str, typer.Argument(help="A name of the catalogue or a folder.")],
    members: Annotated[str, typer.Option("--with", help="More members, as a JSON object.")] = "{}",
    reason: Reason = "specgate deployments create",
    dry_run: DryRun = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Serve another model."""
    asked = _object(members) | {"name": name, "model": model, "reason": reason}
    with admin(base_url) as api:
        _show_change(api.post(PATH, asked, **_query(dry_run)), as_json)


@app.command()
def update(
    name: Name,
    members: Members,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the version.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Change it while it answers; drafters are swapped between two steps."""
    with admin(base_url) as api:
        path = f"{PATH}/{_found(api, name)['id']}"
        _show_change(api.patch(path, _object(members) | {"reason": reason}, **_query(dry_run)), as_json)


@app.command()
def versions(name: Name, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Its drafter configurations, newest first."""
    with admin(base_url) as api:
        show(api.all(f"{PATH}/{_found(api, name)['id']}/versions"), VERSIONS, as_json)


@app.command()
def rollback(
    name: Name,
    version: int,
    reason: Reason = "specgate deployments rollback",
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """An old drafter configuration, as a new version."""
    with admin(base_url) as api:
        path = f"{PATH}/{_found(api, name)['id']}/rollback"
        show(api.post(path, {"version": version, "reason": reason}), COLUMNS, as_json)


@app.command()
def delete(
    name: Name, reason: Reason = "specgate deployments delete", as_json: AsJson = False, base_url: BaseUrl = None
) -> None:
    """It takes no more requests; its engines end when the last one is answered."""
    with admin(base_url) as api:
        show(api.delete(f"{PATH}/{_found(api, name)['id']}", reason), ("id", "deleted"), as_json)


@app.command()
def watch(
    seconds: Annotated[float, typer.Option(min=0.2, help="Between two looks.")] = 1.0,
    looks: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Every replica, as it changes; Ctrl-C ends it."""
    with admin(base_url) as api, Live(console=wide_console(), auto_refresh=False, transient=False) as live:
        while True:
            found = api.all(PATH)
            if as_json:
                typer.echo(json.dumps(found))
            else:
                live.update(_replicas(found), refresh=True)
            looks = None if looks is None else looks - 1
            if looks == 0:
                return
            time.sleep(seconds)


def _replicas(found: list[Object]) -> Table:
    names = ("phase", "in_flight", "running", "waiting", "restarts", "speculation_version", "detail")
    table = Table("deployment", "state", "replica", *names, box=None, pad_edge=False)
    for one in found:
        for replica in one["state"]["replicas"] or [{}]:
            told = (str(replica.get(name, "-")) for name in names)
            table.add_row(one["name"], one["state"]["phase"], str(replica.get("index", "-")), *told)
    return table


def _found(api: Admin, name: str) -> Object:
    found = api.deployment(name)
    return found or stop(f"there is no deployment {name}. `specgate deployments list` names them all.")


def _show_change(answer: Object, as_json: bool) -> None:
    if as_json or answer["object"] == "deployment":
        show(answer, COLUMNS, as_json)
        return
    show(answer["changes"], ("field", "from", "to"), as_json)
    print_json({name: value for name, value in answer.items() if name not in ("object", "changes")})


def _object(text: str) -> Object:
    try:
        value = json.loads(text)
    except ValueError as error:
        stop(f"that is no JSON: {error}", 2)
    return value if isinstance(value, dict) else stop("write a JSON object, such as '{\"replicas\": 2}'.", 2)


def _query(dry_run: bool) -> dict[str, Any]:
    return {"dry_run": "true"} if dry_run else {}

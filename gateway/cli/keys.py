"""`specgate keys`: of the projects of a tenant, through a running server; `reset-admin` works on the machine alone."""

import asyncio
from typing import Annotated, Any

import typer

from gateway.bootstrap import HomeRefused, reset_admin
from gateway.cli.admin import Admin, AsJson, BaseUrl, Object, Organization, admin, show
from gateway.cli.console import load_settings, stop
from gateway.settings import Settings
from storage import Database, StorageError

app = typer.Typer(help="Look after keys.", no_args_is_help=True)
COLUMNS = ("id", "name", "scopes", "allowed_models", "expires_at", "last_used_at", "overlap_until")
A_DAY = 86_400
Project = Annotated[str | None, typer.Option(help="A project's id or name; else the default one.")]
Id = Annotated[str, typer.Argument(help="The key's public id.")]


@app.command("list")
def list_all(
    tenant: Organization = None, project: Project = None, as_json: AsJson = False, base_url: BaseUrl = None
) -> None:
    """The keys of a project. Secrets are never shown again."""
    with admin(base_url, tenant) as api:
        show(api.all(_keys(api, project)), COLUMNS, as_json)


@app.command()
def create(
    name: str,
    tenant: Organization = None,
    project: Project = None,
    model: Annotated[list[str] | None, typer.Option(help="A model it may use; repeatable. Else all.")] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1)] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """A new key, with a service account of its name. Its secret is shown this once."""
    asked: Object = {"name": name}
    asked |= {"allowed_models": model} if model else {}
    asked |= {"expires_in_seconds": expires_in_days * A_DAY} if expires_in_days else {}
    with admin(base_url, tenant) as api:
        made = api.post(f"/v1/organization/projects/{_project(api, project)}/service_accounts", asked)
        _show_new(made["api_key"], as_json)


@app.command()
def rotate(
    id: Id,
    overlap_hours: Annotated[float, typer.Option(min=0, help="How long the old one stays good.")] = 24,
    tenant: Organization = None,
    project: Project = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Another key with the same rights; the old one ends after the overlap."""
    with admin(base_url, tenant) as api:
        path = f"{_keys(api, project)}/{id}/rotate"
        _show_new(api.post(path, {"overlap_seconds": int(overlap_hours * 3600)}), as_json)


@app.command()
def revoke(
    id: Id, tenant: Organization = None, project: Project = None, as_json: AsJson = False, base_url: BaseUrl = None
) -> None:
    """End a key: refused everywhere within a second, its streams cut within five."""
    with admin(base_url, tenant) as api:
        show(api.delete(f"{_keys(api, project)}/{id}"), ("id", "deleted"), as_json)


@app.command("reset-admin")
def reset() -> None:
    """A new operator key in place of the one this home holds, which ends within a second."""
    settings = load_settings()
    try:
        key = asyncio.run(_reset(settings))
    except (HomeRefused, StorageError) as error:
        stop(str(error))
    typer.echo(f"operator key  {key}   (shown once; kept in {settings.home / 'credentials.json'})")
    if settings.admin_key is not None:
        typer.echo("SPECGATE_ADMIN_KEY is set and wins at the next start: set it to this key, or unset it.")


async def _reset(settings: Settings) -> str:
    db = await Database.open(settings.database, durability=settings.durability)
    try:
        return await reset_admin(settings.home, db, settings.secret.get_secret_value() if settings.secret else None)
    finally:
        await db.close()


def _project(api: Admin, name: str | None) -> Any:
    found = api.project(name)
    return found["id"] if found else stop(f"there is no project {name}.")


def _keys(api: Admin, project: str | None) -> str:
    return f"/v1/organization/projects/{_project(api, project)}/api_keys"


def _show_new(key: Object, as_json: bool) -> None:
    show(key, ("id", "name", "value", "expires_at"), as_json)

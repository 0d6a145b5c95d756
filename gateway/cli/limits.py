"""`specgate limits`: what a tenant, a project or a key may use; all levels apply."""

from typing import Annotated

import typer

from gateway.api.limits import LimitsDocument
from gateway.cli.admin import AsJson, BaseUrl, Object, admin, show
from gateway.cli.console import stop

app = typer.Typer(help="Look after limits.", no_args_is_help=True)
NAMES = tuple(LimitsDocument.model_fields)
Scope = Annotated[str, typer.Argument(help="tenant, project or key.")]
Id = Annotated[str, typer.Argument(help="Its id.")]


@app.command("show")
def retrieve(scope: Scope, id: Id, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """The limits, and how much of each is used."""
    with admin(base_url) as api:
        found = api.get(_path(scope, id))
    show(found, ("scope", "id", *NAMES), as_json)
    if not as_json and found["standings"]:
        show(found["standings"], ("name", "limit", "used", "remaining"), as_json)


@app.command("set")
def change(
    scope: Scope,
    id: Id,
    limits: Annotated[list[str], typer.Argument(metavar="NAME=VALUE…", help=f"{', '.join(NAMES)}; `none` lifts one.")],
    dry_run: Annotated[bool, typer.Option(help="Say what would change.")] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Set what is named; the rest stays. It holds on every gateway within a second."""
    asked: Object = {}
    for limit in limits:
        name, _, value = limit.partition("=")
        if name not in NAMES or not (value.isdecimal() or value == "none"):
            stop(f"{limit} is no limit: write NAME=NUMBER or NAME=none, where NAME is {', '.join(NAMES)}.", 2)
        asked[name] = None if value == "none" else int(value)
    with admin(base_url) as api:
        if dry_run:
            show(api.patch(_path(scope, id), asked, dry_run="true")["changes"], ("field", "from", "to"), as_json)
        else:
            show(api.patch(_path(scope, id), asked), ("scope", "id", *NAMES), as_json)


def _path(scope: str, id: str) -> str:
    return f"/admin/v1/limits/{scope}/{id}"

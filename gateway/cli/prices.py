"""`specgate prices`: what a deployment's tokens cost."""

from typing import Annotated

import typer

from gateway.api.prices import PricesDocument
from gateway.cli.admin import Admin, AsJson, BaseUrl, Object, Reason, admin, show
from gateway.cli.console import stop

app = typer.Typer(help="Look after prices.", no_args_is_help=True)
NAMES = tuple(PricesDocument.model_fields)
COLUMNS = ("version", "currency", *NAMES)
HISTORY = ("version", *NAMES, "author", "reason", "created_at")
Name = Annotated[str, typer.Argument(help="The deployment, by id or name.")]


@app.command("show")
def retrieve(deployment: Name, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Micro-units for a million tokens, now and before."""
    with admin(base_url) as api:
        found = api.get(_path(api, deployment))
    show(found, COLUMNS, as_json)
    if not as_json and found["history"]:
        show(found["history"], HISTORY, as_json)


@app.command("set")
def change(
    deployment: Name,
    prices: Annotated[list[str], typer.Argument(metavar="NAME=MICROS…", help=f"{', '.join(NAMES)}; for a million.")],
    reason: Reason,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """A new version of all of them. It holds for requests admitted from now on."""
    asked: Object = {}
    for price in prices:
        name, _, value = price.partition("=")
        if name not in NAMES or not value.isdecimal():
            stop(f"{price} is no price: write NAME=MICROS, where NAME is {', '.join(NAMES)}.", 2)
        asked[name] = int(value)
    with admin(base_url) as api:
        show(api.put(_path(api, deployment), asked | {"reason": reason}), COLUMNS, as_json)


def _path(api: Admin, name: str) -> str:
    found = api.deployment(name) or stop(f"there is no deployment {name}. `specgate deployments list` shows them.")
    return f"/admin/v1/deployments/{found['id']}/prices"

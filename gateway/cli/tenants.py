"""`specgate tenants`: whom keys belong to and requests are billed to."""

from typing import Annotated

import typer

from gateway.cli.admin import AsJson, BaseUrl, Object, admin, show

app = typer.Typer(help="Look after tenants.", no_args_is_help=True)
PATH = "/admin/v1/tenants"
COLUMNS = ("id", "name", "status", "rejected_prediction", "holdout_includes_prediction")
Id = Annotated[str, typer.Argument(help="The tenant's id.")]
Policy = Annotated[str | None, typer.Option(help="Rejected prediction tokens: free, billed or capped.")]
HeldOut = Annotated[
    bool | None,
    typer.Option(
        "--holdout-includes-prediction/--holdout-spares-prediction",
        help="Whether requests with a prediction may run without it, as controls.",
    ),
]


@app.command("list")
def list_all(as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Every tenant."""
    with admin(base_url) as api:
        show(api.all(PATH), COLUMNS, as_json)


@app.command("show")
def retrieve(id: Id, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """One tenant."""
    with admin(base_url) as api:
        show(api.get(f"{PATH}/{id}"), COLUMNS, as_json)


@app.command()
def create(
    name: str,
    id: Annotated[str | None, typer.Option(help="Else one is drawn.")] = None,
    rejected_prediction: Policy = None,
    holdout_includes_prediction: HeldOut = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """A new tenant, with its default project."""
    given = {"id": id, **_settings(rejected_prediction, holdout_includes_prediction)}
    with admin(base_url) as api:
        made = api.post(PATH, {"name": name} | {key: value for key, value in given.items() if value is not None})
        show(made, COLUMNS, as_json)


@app.command()
def update(
    id: Id,
    name: Annotated[str | None, typer.Option()] = None,
    rejected_prediction: Policy = None,
    holdout_includes_prediction: HeldOut = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Change what is named; the rest stays."""
    given = {"name": name, **_settings(rejected_prediction, holdout_includes_prediction)}
    with admin(base_url) as api:
        after = api.patch(f"{PATH}/{id}", {key: value for key, value in given.items() if value is not None})
        show(after, COLUMNS, as_json)


@app.command()
def suspend(id: Id, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Refuse its keys within a second, and cut its streams within five."""
    with admin(base_url) as api:
        show(api.post(f"{PATH}/{id}/suspend"), COLUMNS, as_json)


@app.command()
def resume(id: Id, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Take its keys again."""
    with admin(base_url) as api:
        show(api.post(f"{PATH}/{id}/resume"), COLUMNS, as_json)


@app.command()
def erase(
    id: Id,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """End it for good: names, keys, hashes of users and audit details go; what it used stays counted."""
    if not yes:
        typer.confirm(f"Erase tenant {id} for good?", abort=True)
    with admin(base_url) as api:
        show(api.post(f"{PATH}/{id}/erase"), COLUMNS, as_json)


def _settings(rejected_prediction: str | None, holdout_includes_prediction: bool | None) -> Object:
    return {
        "rejected_prediction": rejected_prediction,
        "holdout_includes_prediction": holdout_includes_prediction,
    }

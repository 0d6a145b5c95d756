"""`specgate diff`, `specgate apply`, `specgate schema`: a server as a file says it should be."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.admin import AsJson, BaseUrl, admin
from gateway.cli.console import print_json, stop, visible
from gateway.cli.declared import DeclarationRefused, Declared, read, schema
from gateway.cli.plan import Change, Planner

File = Annotated[Path, typer.Option("--file", "-f", help="What should be.")]
Prune = Annotated[bool, typer.Option(help="Also delete deployments, projects and keys that the file does not name.")]
DEFAULT_FILE = Path("specgate.yaml")
SIGNS = {"create": "+", "update": "~", "delete": "-"}


def diff(file: File = DEFAULT_FILE, prune: Prune = False, as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Say what `apply` would change; ends with 1 where that is anything."""
    declared = _read(file)
    with admin(base_url) as api:
        changes = Planner(api, file.parent, "", prune).changes(declared)
    _tell(changes, as_json)
    raise typer.Exit(1 if changes else 0)


def apply(
    file: File = DEFAULT_FILE,
    prune: Prune = False,
    force: Annotated[bool, typer.Option(help="Also where another author changed it last.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why; kept with each version.")] = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Make it so. A second time changes nothing."""
    declared = _read(file)
    with admin(base_url) as api:
        changes = Planner(api, file.parent, reason or f"specgate apply {file.name}", prune).changes(declared)
        _tell(changes, as_json)
        if foreign := [change for change in changes if change.author and not force]:
            told = ", ".join(f"{change.target} (by {change.author})" for change in foreign)
            stop(f"nothing was changed: another author changed {told} last. Take theirs into the file, or use --force.")
        for change in changes:
            change.make()
            if not as_json:
                typer.echo(visible(f"{change.target}: done"))


def print_schema() -> None:
    """The JSON Schema of the file, for editors."""
    print_json(schema())


def _read(file: Path) -> Declared:
    try:
        return read(file)
    except DeclarationRefused as error:
        stop(str(error), 2)


def _tell(changes: list[Change], as_json: bool) -> None:
    if as_json:
        print_json([change.told() for change in changes])
        return
    for change in changes:
        whose = f"  (last changed by {change.author})" if change.author else ""
        typer.echo(visible(f"{SIGNS[change.action]} {change.target}{whose}"))
        for one in change.differences:
            typer.echo(visible(f"    {one['field']}: {one['from']} → {one['to']}"))
    if not changes:
        typer.echo("Nothing differs.")

"""`specgate config show`: every setting, its value and where it comes from. Secrets are masked."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource
from rich.table import Table
from sqlalchemy.engine import make_url

from gateway.cli.console import load_settings, wide_console
from gateway.settings import Settings, config_file, variable

app = typer.Typer(help="Look at the settings.", no_args_is_help=True)


@app.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Value and origin of every setting."""
    rows = describe(load_settings())
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("setting", "value", "from", "environment variable", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["setting"], row["value"], row["from"], row["variable"])
    wide_console().print(table)


def describe(settings: Settings) -> list[dict[str, str]]:
    """One row a setting."""
    environment = EnvSettingsSource(Settings)()
    path = config_file()
    file = TomlConfigSettingsSource(Settings, path)()
    rows = []
    for name, field in Settings.model_fields.items():
        given = (
            "environment" if _holds(environment, name, field) else str(path) if _holds(file, name, field) else "default"
        )
        value = masked(name, getattr(settings, name))
        rows.append({"setting": name, "value": value, "from": given, "variable": variable(name, field)})
    return rows


def masked(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, SecretStr):
        return "********"
    if name == "database_url":
        return make_url(str(value)).render_as_string(hide_password=True)
    return str(value)


def _holds(source: Mapping[str, Any], name: str, field: FieldInfo) -> bool:
    alias = field.validation_alias
    names = {name, *(map(str, alias.choices) if isinstance(alias, AliasChoices) else ())}
    return not names.isdisjoint(source)

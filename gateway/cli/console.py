"""What the commands share: settings or the reason there are none, and errors that end a command."""

import json
import os
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console

from gateway.settings import Settings, unknown_variables, variable


def stop(message: str, code: int = 1) -> NoReturn:
    """End the command; the message says what to do next."""
    typer.echo(f"specgate: {message}", err=True)
    raise typer.Exit(code)


def load_settings(**flags: Any) -> Settings:
    """Flags that were given win over environment and file. A bad value or an unknown name ends the command."""
    for name in unknown_variables(os.environ):
        likely = get_close_matches(name, [variable(*setting) for setting in Settings.model_fields.items()], 1)
        meant = f"did you mean {likely[0]}?" if likely else "`specgate config show` lists all that there are."
        stop(f"there is no setting {name}; {meant}", 2)
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, p['loc'])) or 'settings'}: {p['msg'].removeprefix('Value error, ')}"
            for p in error.errors(include_input=False)
        ]
        stop("these settings cannot be used. " + "; ".join(problems) + ". `specgate config show` lists all of them.", 2)
    except (SettingsError, ValueError, OSError) as error:
        stop(f"the settings cannot be read: {error}", 2)


def wide_console() -> Console:
    """For tables: as wide as the terminal, and where there is none as wide as they like. Text is shown as it is."""
    plain = partial(Console, markup=False, emoji=False, highlight=False)
    console = plain()
    return console if console.is_terminal else plain(width=240)


def visible(text: str) -> str:
    """Characters that would move the cursor, colour or turn what is written are shown as their escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))

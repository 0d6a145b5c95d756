"""`specgate keys`: works on the machine that holds the home, and needs no running server."""

import asyncio

import typer

from gateway.bootstrap import HomeRefused, reset_admin
from gateway.cli.console import load_settings, stop
from gateway.settings import Settings
from storage import Database, StorageError

app = typer.Typer(help="Look after keys.", no_args_is_help=True)


@app.callback()
def keys() -> None:
    """Look after keys."""


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

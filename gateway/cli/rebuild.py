"""`specgate usage rebuild`: the sums of reports anew, from the ledger."""

import asyncio
from datetime import datetime

import typer

from gateway.cli.console import load_settings, stop
from gateway.cli.database import require_database
from gateway.rollup_job import every_rollup
from gateway.settings import Settings
from storage import Database, StorageError
from storage.rollups.rebuild import Busy, rebuild


def rebuild_usage() -> None:
    """Roll up the ledger again, beside running gateways or without one. Right sums come out as they were."""
    settings = load_settings()
    require_database(settings)
    try:
        asyncio.run(_rebuild(settings))
    except Busy:
        stop("a gateway is rolling up right now. Nothing was changed; try again in a minute.")
    except StorageError as error:
        stop(f"the sums were not rebuilt to the end: {error}. Reports stay right; run it again.")


async def _rebuild(settings: Settings) -> None:
    database = await Database.open(settings.database, durability=settings.durability)
    try:
        for rollup in every_rollup():
            await rebuild(database, rollup, "rebuild", told=_tell)
            typer.echo(f"The sums of {rollup.name} are those of the ledger.")
    finally:
        await database.close()


def _tell(through: datetime) -> None:
    typer.echo(f"through {through:%Y-%m-%d %H:%M} UTC", err=True)

"""`specgate db upgrade` and `specgate ledger verify`: the database at hand, with or without a running server."""

import asyncio

import typer
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from gateway.cli.console import load_settings, stop
from gateway.settings import Settings
from storage import Database, StorageError
from storage.ledger import Ledger
from storage.schema import upgrade as upgrade_schema
from storage.values import Problem

db = typer.Typer(help="Look after the database.", no_args_is_help=True)
ledger = typer.Typer(help="Look after the ledger.", no_args_is_help=True)
SHOWN = 20


@db.callback()
def _db() -> None:
    """Look after the database."""


@ledger.callback()
def _ledger() -> None:
    """Look after the ledger."""


@db.command()
def upgrade() -> None:
    """Bring the database to this program's schema. SQLite also does so at start; PostgreSQL only here."""
    settings = load_settings()
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        revision = upgrade_schema(settings.database)
    except (StorageError, SQLAlchemyError, OSError) as error:
        stop(f"the database was not upgraded: {error}")
    typer.echo(f"The database is at revision {revision}.")


@ledger.command()
def verify() -> None:
    """Check every entry against the ledger's rules; ends with 1 and names them where some do not hold."""
    settings = load_settings()
    require_database(settings)
    try:
        problems = asyncio.run(_verify(settings))
    except StorageError as error:
        stop(f"the ledger cannot be read: {error}")
    for problem in problems[:SHOWN]:
        typer.echo(f"{problem.request_id}  {problem.rule}")
    if problems:
        stop(f"{len(problems)} entries break a rule of the ledger ({min(SHOWN, len(problems))} shown).")
    typer.echo("The ledger holds: every entry keeps every rule.")


def require_database(settings: Settings) -> None:
    """A file that is not there would be made, and then found to be in order."""
    url = make_url(settings.database)
    if url.get_backend_name() == "sqlite" and not settings.home.joinpath(url.database or "").is_file():
        stop(f"there is no database {url.database} yet. Start the server once, or set SPECGATE_HOME or DATABASE_URL.")


async def _verify(settings: Settings) -> list[Problem]:
    database = await Database.open(settings.database, durability=settings.durability)
    try:
        async with database.view() as session:
            return await Ledger(session).verify()
    finally:
        await database.close()

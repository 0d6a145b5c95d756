"""`specgate backup` and `specgate restore`: a home's database, secret, keys and settings, in one private file.

For SQLite, while the server runs or not. PostgreSQL has tools of its own; the secret must be kept with what they save.
"""

import gzip
import os
import sqlite3
import tarfile
import tempfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import make_url

from gateway.bootstrap import HomeRefused, take_home
from gateway.cli.console import load_settings, stop
from gateway.settings import Settings

DATABASE = "specgate.db"
BESIDE = ("secret", "credentials.json", "specgate.toml")
"""Files of a home that are saved where they are there. Models are not: they can be fetched again."""


def backup(file: Annotated[Path, typer.Argument(help="The archive to write; it holds the keys.")]) -> None:
    """Save the home as it is at one moment."""
    settings = load_settings()
    source = _database(settings)
    if not source.is_file():
        stop(f"there is no database {source} yet. Start the server once, or set SPECGATE_HOME.")
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        stop(f"{file} cannot be made: {error.strerror}. Choose a file that is not there yet.")
    with os.fdopen(descriptor, "wb") as target, tempfile.TemporaryDirectory(dir=settings.home) as folder:
        copy = Path(folder) / DATABASE
        with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(copy)) as saved:
            live.backup(saved)
        with tarfile.open(fileobj=target, mode="w:gz") as archive:
            archive.add(copy, DATABASE)
            for name in BESIDE:
                if (settings.home / name).is_file():
                    archive.add(settings.home / name, name)
    typer.echo(f"Saved {settings.home} to {file}. Keep it as you keep the keys: it holds them.")


def restore(
    file: Annotated[Path, typer.Argument(help="An archive that `specgate backup` wrote.")],
    force: Annotated[bool, typer.Option(help="Replace what this home holds.")] = False,
) -> None:
    """Put it back, while no server runs on this home."""
    settings = load_settings()
    target = _database(settings)
    try:
        _require_whole(file)
        with take_home(settings.home), tarfile.open(file, "r:gz") as archive:
            if target.exists() and not force:
                stop(f"{target} is there already. Set SPECGATE_HOME to an empty folder, or use --force.")
            members = [one for one in archive.getmembers() if one.isfile() and one.name in (DATABASE, *BESIDE)]
            if DATABASE not in {one.name for one in members}:
                stop(f"{file} holds no {DATABASE}; it is no backup of SpecGate.")
            with tempfile.TemporaryDirectory(dir=settings.home) as folder:
                archive.extractall(folder, members, filter=_private)
                for name in (f"{DATABASE}-wal", f"{DATABASE}-shm"):
                    target.with_name(name).unlink(missing_ok=True)
                for one in members:
                    os.replace(Path(folder) / one.name, settings.home / one.name)
    except (EOFError, zlib.error) as error:
        stop(f"{file} was not restored: it is cut off or damaged ({error}).")
    except (OSError, tarfile.TarError, HomeRefused) as error:
        stop(f"{file} was not restored: {error}")
    typer.echo(f"Restored {settings.home} from {file}. Start the server: it migrates an older database itself.")


def _private(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    return tarfile.data_filter(member.replace(mode=0o600), folder)


def _require_whole(file: Path) -> None:
    """Before anything is replaced: its last bytes are a checksum of it all. Raises OSError, EOFError, zlib.error."""
    with gzip.open(file) as stream:
        while stream.read(2**20):
            pass


def _database(settings: Settings) -> Path:
    url = make_url(settings.database)
    if url.get_backend_name() != "sqlite" or not url.database:
        stop("this is for SQLite. Save PostgreSQL with pg_dump, and SPECGATE_SECRET with it.", 2)
    return Path(url.database)

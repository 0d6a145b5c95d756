"""Where this gateway keeps what the database cannot take: one file under its home, which one process holds."""

from gateway.home import HomeRefused
from gateway.settings import Settings
from storage.database import Durability
from storage.spool import Spool


def open_spool(settings: Settings, durability: Durability) -> Spool:
    """Raises HomeRefused where nothing can be kept."""
    path = settings.home / "spool" / "settlements.jsonl"
    try:
        return Spool(path, settings.spool_bytes, syncs=durability == "power")
    except OSError as error:
        raise HomeRefused(
            f"{path} cannot be written to: {error.strerror}. It keeps what streams used while the database is away; "
            "set SPECGATE_HOME to a folder where this user may write."
        ) from error

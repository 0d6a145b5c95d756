"""`python -m storage.migrations 'What changes'`: a new migration from what `storage.models` has and the last one lacks.

Read it over before it is committed: it must only expand (see `env.py`).
"""

import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from storage.engines import sqlite_migrator
from storage.schema import MIGRATIONS, upgrade


def write_migration(message: str, migrations: Path = MIGRATIONS) -> None:
    """Compares the models with an empty database at the last revision."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/empty.db"
        upgrade(url, migrations)
        number = f"{len(list((migrations / 'versions').glob('[0-9]*.py'))) + 1:04d}"
        with sqlite_migrator(make_url(url)).connect() as connection:
            config = Config(attributes={"connection": connection})
            config.set_main_option("script_location", str(migrations).replace("%", "%%"))
            command.revision(config, message, autogenerate=True, rev_id=number)


if __name__ == "__main__":
    write_migration(" ".join(sys.argv[1:]))

"""How the processes of `specgate serve --workers N` count together: one folder, a file for each place.

A process that is started again takes the place of the one that died, and goes on with its figures: no counter falls,
whichever process is scraped, and no file is left over. The parent empties the folder at its own start.
"""

import os
import shutil
from pathlib import Path

from prometheus_client import values

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The library's own word; it reads it whenever it opens a file."""


def new_folder(home: Path) -> Path:
    """Empty, in the parent's home."""
    folder = home.absolute() / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def shared_folder() -> Path | None:
    """The one that this process was started with."""
    folder = os.environ.get(VARIABLE)
    return Path(folder) if folder else None


def take_place(place: str) -> None:
    """Before the first metric is made: this process counts in the files of `place`."""
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]

"""SPECGATE_HOME: one folder, for its owner alone, held by one process at a time.

Files in it are written to a temporary name and renamed, so a start that is killed leaves the old file or the new one.
"""

import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

OTHERS = 0o077


class HomeRefused(Exception):
    """The start is refused; the message says why and what to do."""


class HomeLock:
    """Holds a home until released; the system releases it when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "HomeLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def prepare_home(home: Path) -> None:
    """Make the folder, or shut an existing one to others. Raises HomeRefused for a folder that is not ours to shut."""
    try:
        if home.exists() and not home.is_dir():
            raise HomeRefused(f"SPECGATE_HOME {home} is a file. Set SPECGATE_HOME to a folder, such as ./.specgate.")
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        told = f"SPECGATE_HOME {home} cannot be made: {error.strerror}. Set SPECGATE_HOME to another folder."
        raise HomeRefused(told) from error
    state = home.stat()
    if not stat.S_IMODE(state.st_mode) & OTHERS:
        return
    is_shared = state.st_uid != os.getuid() or state.st_mode & stat.S_ISVTX or home.resolve() == Path.home()
    if is_shared:
        raise HomeRefused(
            f"SPECGATE_HOME {home} is open to other users and looks like a folder with another use. "
            "Set SPECGATE_HOME to a folder of its own, such as ./.specgate."
        )
    home.chmod(0o700)


def take_home(home: Path) -> HomeLock:
    """Hold the home. Raises HomeRefused naming the process that holds it already."""
    prepare_home(home)
    try:
        descriptor = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise HomeRefused(f"SPECGATE_HOME {home} cannot be written to: {error.strerror}. Set it to another.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode().strip() or "unknown"
        os.close(descriptor)
        raise HomeRefused(
            f"SPECGATE_HOME {home} is in use by process {holder}. Stop it, or set SPECGATE_HOME to another folder."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return HomeLock(descriptor)


def read_private(path: Path) -> str | None:
    """The text of a file that only its owner may read; shut to others if it was not."""
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_IMODE(path.stat().st_mode) & OTHERS:
        path.chmod(0o600)
    return text


def append_private(path: Path) -> BinaryIO:
    """A log, readable by its owner alone; one of an earlier release is shut to others."""
    file = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - the caller's
    os.fchmod(file.fileno(), 0o600)
    return file


def write_private(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner alone from its first moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)

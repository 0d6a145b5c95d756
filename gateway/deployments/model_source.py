"""A model's folder, fetched and converted if need be, by a process that knows the catalogue: this one has no torch.

python -m inference.models_catalog --state-dir DIR -- NAME  one JSON object a line: {"stage", "fraction"} as it
                                                            goes, and {"folder"} or {"error"} at last
… --check                                                   only the last, without fetching anything
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

OnProgress = Callable[[str], None]
COMMAND = (sys.executable, "-m", "inference.models_catalog")


class SourceRefused(Exception):
    """The model is not to be had; says why."""


async def fetch(model: str, home: Path, on_progress: OnProgress, command: Sequence[str] = COMMAND) -> Path:
    """Raises SourceRefused."""
    said: dict[str, Any] = {}
    async with contextlib.aclosing(_lines([*command, "--state-dir", str(home), "--", model])) as lines:
        async for said in lines:
            if "stage" in said:
                share = said["fraction"]
                on_progress(said["stage"] + ("" if share is None else f" ({share:.0%})"))
    if "folder" not in said:
        raise SourceRefused(said.get("error") or f"The model {model} could not be prepared.")
    return Path(said["folder"])


async def find(model: str, home: Path, command: Sequence[str] = COMMAND) -> Path | None:
    """Its folder; None where it is one of the catalogue. Raises SourceRefused where there is no such model."""
    async with contextlib.aclosing(_lines([*command, "--state-dir", str(home), "--check", "--", model])) as lines:
        said = await anext(lines, {"error": f"Whether there is a model {model} could not be found out."})
    if "error" in said:
        raise SourceRefused(said["error"])
    return Path(said["folder"]) if said["folder"] else None


async def _lines(command: Sequence[str]) -> AsyncGenerator[dict[str, Any], None]:
    """What the process says; it is ended with whoever stops listening."""
    pipe = asyncio.subprocess.PIPE
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=pipe, start_new_session=True)
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            yield json.loads(line)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()

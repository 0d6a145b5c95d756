"""The model's folder, fetched and converted if need be, with progress on the terminal.

`python -m inference.models_catalog` does the work in a process of its own: this one never imports torch. It says on
standard output, a JSON object a line, {"stage", "fraction"} as it goes and {"folder"} or {"error"} at last.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from gateway.cli.console import stop

OnProgress = Callable[[str, float | None], None]


def model_folder(name: str, home: Path, console: Console) -> Path:
    """Ends the command with the reason where the model is not to be had."""
    command = [sys.executable, "-m", "inference.models_catalog", name, "--state-dir", str(home)]
    bar = BarColumn(bar_width=30)
    with (
        Progress(
            TextColumn("{task.description}"), bar, TaskProgressColumn(), TimeElapsedColumn(), console=console
        ) as shown,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            last = _follow(process.stdout, _Bar(shown) if console.is_terminal else _Lines(console))
        except BaseException:
            process.terminate()
            raise
    if "folder" not in last:
        stop(last.get("error") or f"the model {name} could not be prepared (exit code {process.returncode}).")
    return Path(last["folder"])


def _follow(lines: IO[str], on_progress: OnProgress) -> dict[str, Any]:
    """Returns the last word."""
    said: dict[str, Any] = {}
    for line in lines:
        said = json.loads(line)
        if "stage" in said:
            on_progress(said["stage"], said["fraction"])
    return said


class _Bar:
    """One bar a stage; where nobody knows how far it is, the bar only moves."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._tasks: dict[str, Any] = {}

    def __call__(self, stage: str, fraction: float | None) -> None:
        if stage not in self._tasks:
            for task in self._tasks.values():
                self._shown.update(task, total=1.0, completed=1.0)
            self._tasks[stage] = self._shown.add_task(stage, total=None)
        if fraction is not None:
            self._shown.update(self._tasks[stage], total=1.0, completed=fraction)


class _Lines:
    """A line a stage, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def __call__(self, stage: str, fraction: float | None) -> None:
        if stage != self._last:
            self._console.print(f"{stage} …")
            self._last = stage

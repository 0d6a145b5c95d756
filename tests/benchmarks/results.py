"""What a benchmark's figures must be read with, and the files that keep them: `results/NAME-DATE.json` and `.txt`."""

import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def where(module: str) -> dict[str, Any]:
    """The machine, the moment, and what was run."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python -m", module, *sys.argv[1:]]),
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def save(name: str, figures: dict[str, Any], table: str, folder: Path = RESULTS) -> Path:
    """Where the figures are now; the table lies beside them."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{figures['at'][:10]}.json"
    path.write_text(json.dumps(figures, indent=2) + "\n")
    path.with_suffix(".txt").write_text(table)
    return path


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown"


def _commit() -> str | None:
    """None outside a clone."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return None
    return told.stdout.strip() or None

"""Fill the environment from requirements.lock, telling what it does and what to do when it cannot.

Called by `.ci/setup` with a fitting Python; standard library only. Every step may be repeated.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, NoReturn

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CPU_GB, CUDA_GB = 4, 12
"""Disk that the whole environment, the default model and their downloads want."""


class Build(NamedTuple):
    """A torch that pip can have, and how."""

    version: str
    cuda: bool
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind, size = ("CUDA", "3 GB") if self.cuda else ("CPU", "0.2 GB")
        return f"torch {self.version}, {kind} build, roughly {size} to fetch"


def stop(message: str) -> NoReturn:
    raise SystemExit(f"SpecGate set-up: {message}")


def say(message: str) -> None:
    print(f"── {message}", flush=True)  # noqa: T201


def make_environment(venv: Path) -> Path:
    """The environment's Python; made anew where it is missing, half made, or of another version."""
    python = venv / "bin" / "python"
    probe = f"import sys, pip; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if python.exists() and subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0:
        return python
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        stop(f"this Python cannot make virtual environments. Add that part: sudo apt-get install {version}-venv")
    say(f"making {venv} with Python {platform.python_version()}")
    shutil.rmtree(venv, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "venv", venv]).returncode:
        stop(f"{venv} could not be made (above: why). Put it elsewhere: make serve VENV=/another/folder/venv")
    return python


def locked_torch() -> str:
    lines = Path("requirements.lock").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def installed_torch(python: Path, wanted: str) -> Build | None:
    code = "import importlib.metadata as m; print(m.version('torch'), any('nvidia' in r for r in m.requires('torch')))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    version, _, cuda = found.stdout.strip().partition(" ")
    same = found.returncode == 0 and version.split("+")[0] == wanted.removeprefix("torch==")
    return Build(version, cuda == "True") if same else None


def ask_pip(python: Path, wanted: str, options: tuple[str, ...]) -> Build | None:
    """What pip would fetch with these options; None: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
        quick = ["--retries", "1", "--timeout", "15"]
        done = subprocess.run([*pip, *quick, "--report", report, *options, wanted], capture_output=True)
        if done.returncode:
            return None
        metadata = json.loads(report.read_text())["install"][0]["metadata"]
    needs = " ".join(metadata.get("requires_dist", ()))
    cuda = platform.system() == "Linux" and "+cpu" not in metadata["version"] and "nvidia" in needs
    return Build(metadata["version"], cuda, options)


def has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def choose_torch(python: Path, wanted: str) -> Build:
    """TORCH_INDEX if it is set; else what pip is configured to fetch, or a CPU build where CUDA would be of no use."""
    index = os.environ.get("TORCH_INDEX")
    if index:
        build = ask_pip(python, wanted, ("--index-url", index))
        return build or stop(
            f"{wanted} is not to be had from TORCH_INDEX={index}. Try without: make serve TORCH_INDEX="
        )
    build = ask_pip(python, wanted, ())
    if build is None or (build.cuda and not has_nvidia_driver()):
        build = ask_pip(python, wanted, ("--index-url", CPU_INDEX)) or build
    version = platform.python_version()
    return build or stop(
        f"pip finds no {wanted} for Python {version}. Name a place that has it: make serve TORCH_INDEX={CPU_INDEX}"
    )


def check_disk(venv: Path, gigabytes: int) -> None:
    """Refuse before the disk is full, not after."""
    needed = int(os.environ.get("SPECGATE_SETUP_GB", gigabytes))
    free = shutil.disk_usage(venv.absolute().parent).free / 1e9
    if free < needed:
        stop(
            f"{venv.absolute()} has {free:.1f} GB free and set-up wants {needed}. Use another disk: "
            "make serve VENV=/another/disk/venv SPECGATE_HOME=/another/disk/specgate"
        )


def pip_install(python: Path, *arguments: str) -> None:
    if subprocess.run([python, "-m", "pip", "install", "--no-input", *arguments]).returncode:
        stop("pip failed (above: why). What is installed stays; go on with the same command once that is mended")


def main(venv: Path) -> None:
    venv.absolute().parent.mkdir(parents=True, exist_ok=True)
    if not (venv / "bin").exists():
        check_disk(venv, CPU_GB)
    python, wanted = make_environment(venv), locked_torch()
    present = None if os.environ.get("TORCH_INDEX") else installed_torch(python, wanted)
    build = present or choose_torch(python, wanted)
    if not present:
        check_disk(venv, CUDA_GB if build.cuda else CPU_GB)
        say(f"{build} (TORCH_INDEX chooses another)")
        pip_install(python, "--no-deps", "--force-reinstall", *build.options, wanted)
    say("everything else, as requirements.lock has it")
    pip_install(python, "-r", "requirements.lock")
    say("SpecGate itself")
    pip_install(python, "--no-deps", "--no-build-isolation", "--quiet", "-e", ".")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What `make` does on a machine that is not ready for it, and what the lock file promises."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]


def test_the_lock_names_each_package_once_at_one_version() -> None:
    names = [re.fullmatch(r"([A-Za-z0-9_.-]+)==([0-9]+!)?[A-Za-z0-9.]+", line) for line in LOCK]
    assert [line for line, name in zip(LOCK, names, strict=True) if not name] == []
    folded = [re.sub(r"[-_.]+", "-", name[1]).lower() for name in names if name]
    assert len(folded) == len(set(folded))


def test_torch_is_locked_bare_so_that_cpu_and_cuda_builds_both_fit() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert [line for line in LOCK if line.startswith("torch")] == ["torch==2.13.0"]
    assert "+cpu" not in text
    assert "file:" not in text
    assert "sha256" not in text
    assert not any(line.lower().startswith(("nvidia-", "triton")) for line in LOCK)


def test_every_locked_version_fits_the_ranges_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ranges = map(Requirement, [*project["dependencies"], *(line for lines in extras.values() for line in lines)])
    locked = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in (line.split("==") for line in LOCK)}
    wanted = [r for r in ranges if r.name != "specgate"]
    assert len(wanted) > 20
    for requirement in wanted:
        assert requirement.specifier.contains(locked[re.sub(r"[-_.]+", "-", requirement.name).lower()]), requirement


def test_torch_2_11_and_transformers_5_17_are_admitted_too() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["inference"]
    ranges = {r.name: r.specifier for r in map(Requirement, extra)}
    assert ranges["torch"].contains("2.11.0")
    assert ranges["transformers"].contains("5.17.0")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What set-up reads, alone in a folder."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    return tmp_path


def make(clone: Path, target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "VENV", "TORCH_INDEX", "MAKEFLAGS")}
    command = ["make", "--no-print-directory", target]
    return subprocess.run(command, cwd=clone, env=env | variables, capture_output=True, text=True, timeout=60)


def a_python_that_says(folder: Path, script: str) -> str:
    path = folder / "stand-in-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_not_there_gives_the_command_that_mends_it(clone: Path) -> None:
    done = make(clone, "setup", PYTHON="python3.77")
    assert done.returncode != 0
    assert "PYTHON=python3.77 is not to be found" in done.stderr
    assert "make serve PYTHON=python3.11" in done.stderr


def test_a_python_that_is_too_old_is_named_with_its_version(clone: Path) -> None:
    old = a_python_that_says(clone, '[ "$1" = --version ] && echo "Python 3.9.1"; exit 1')
    done = make(clone, "setup", PYTHON=old)
    assert done.returncode != 0
    assert "is Python 3.9.1; SpecGate runs on Python 3.11, 3.12 or 3.13" in done.stderr


def test_a_python_without_venv_gives_the_package_that_has_it(clone: Path) -> None:
    (clone / "site").mkdir()
    (clone / "site" / "sitecustomize.py").write_text(
        "import importlib.util\nfound = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'ensurepip' else found(name, *a)\n"
    )
    done = make(clone, "setup", PYTHON=sys.executable, PYTHONPATH=str(clone / "site"))
    assert done.returncode != 0
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"sudo apt-get install python{version}-venv" in done.stderr


def test_a_full_disk_is_told_before_anything_is_fetched(clone: Path) -> None:
    done = make(clone, "setup", PYTHON=sys.executable, SPECGATE_SETUP_GB="1000000")
    assert done.returncode != 0
    assert "set-up wants 1000000" in done.stderr
    assert "make serve VENV=/another/disk/venv SPECGATE_HOME=/another/disk/specgate" in done.stderr
    assert not (clone / ".venv" / ".installed").exists()


def a_finished_environment(clone: Path) -> Path:
    """As set-up leaves it: the real one's Python under a stamp that fits."""
    (clone / ".ci" / "install.py").write_text(
        "import os, sys\nos.makedirs(sys.argv[1] + '/bin', exist_ok=True)\n"
        "target = sys.argv[1] + '/bin/python'\nos.path.lexists(target) or os.symlink(sys.executable, target)\n"
        "print('installing')\n"
    )
    done = make(clone, "setup", PYTHON=sys.executable)
    assert done.stdout == "installing\n"
    return clone / ".venv" / ".installed"


def test_a_second_start_installs_nothing(clone: Path) -> None:
    a_finished_environment(clone)
    assert make(clone, "setup", PYTHON=sys.executable).stdout == ""


def test_an_interrupted_install_is_gone_on_with(clone: Path) -> None:
    a_finished_environment(clone).unlink()
    assert make(clone, "setup", PYTHON=sys.executable).stdout == "installing\n"


def test_another_lock_is_installed(clone: Path) -> None:
    a_finished_environment(clone)
    (clone / "requirements.lock").write_text("other==1\n")
    assert make(clone, "setup", PYTHON=sys.executable).stdout == "installing\n"


def test_ci_runs_what_the_readme_says(clone: Path) -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert commands == ["make check", "make test", "make test-long"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

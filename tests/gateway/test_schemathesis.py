"""The published OpenAPI document holds: schemathesis, with all of its default checks, over every route.

A short look in `make test`, a long one in `make test-long`. What neither document nor generator can know is in
`schemathesis_hooks.py`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway import access
from gateway.openapi.operations import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "tests/gateway/schemathesis.toml"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A gateway process with an engine by script, and its keys."""
    command = [sys.executable, "-m", "tests.gateway.serve_fake", str(tmp_path / "home"), "{}", "{}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield {"url": told["url"]} | json.loads((tmp_path / "home" / "credentials.json").read_text())
        finally:
            process.kill()


def run(gateway: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("st")), "--config-file", CONFIG, "--no-color"]
    command += ["run", f"{gateway['url']}/openapi.json", "--continue-on-failure", "--no-shrink", *options]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.gateway.schemathesis_hooks", "SPECGATE_TEST_KEYS": json.dumps(gateway)}
    env = os.environ | hooks | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)


def failures(output: str) -> str:
    return output.partition("= FAILURES =")[2].partition("= WARNINGS =")[0] or output[-4000:]


def test_every_route_has_its_row() -> None:
    assert set(OPERATIONS) == set(access.ROUTES) | access.NO_KEY


def test_the_document_tells_of_the_routes_of_its_bind_to_anyone(gateway: dict[str, str]) -> None:
    told = httpx.get(f"{gateway['url']}/openapi.json").json()
    assert {(method.upper(), path) for path, calls in told["paths"].items() for method in calls} == {
        (method, path.replace(":path}", "}")) for method, path in OPERATIONS
    }


@pytest.mark.timeout(300)
def test_no_default_check_fails_on_any_route(gateway: dict[str, str]) -> None:
    done = run(gateway, "--generation-deterministic", "--phases", "examples,fuzzing", "-n", "5")
    assert done.returncode == 0, failures(done.stdout)
    assert f"Tested: {len(OPERATIONS) - 1}" in done.stdout, "all but the document itself"


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_no_default_check_fails_however_long_it_looks(gateway: dict[str, str]) -> None:
    done = run(gateway, "--generation-deterministic", "-n", "20", "--max-time", "150")
    assert done.returncode == 0, failures(done.stdout)

"""What is measured, each in a process of its own on a port of its own: the engine directly, a relay, the gateway."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.wire_client import request

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60
SECRET = "between the two of the benchmark"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Target:
    name: str
    port: int
    pid: int
    model: str = "fake"
    key: str = "none"
    operator_key: str = "none"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def rss(self) -> int:
        """Bytes of memory that it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def body(target: Target, seed: int = 0, stream: bool | None = None) -> bytes:
    """A request's bytes. `seed`, where there is one, is what the fake engine goes by: so many chunks of a stream."""
    asked: dict[str, Any] = {"model": target.model, "messages": [{"role": "user", "content": "Say hello to me."}]}
    asked |= {"max_tokens": 64} | ({"stream": seed > 0 if stream is None else stream, "seed": seed} if seed else {})
    return request(CHAT, target.key, asked)


@contextlib.contextmanager
def engine() -> Iterator[Target]:
    with _process([sys.executable, "-m", "tests.benchmarks.fake_worker"]) as (process, port):
        yield Target("direct", port, process.pid)


@contextlib.contextmanager
def relay(upstream: Target, module: str) -> Iterator[Target]:
    with _process([sys.executable, "-m", module, "--be-the-relay", upstream.url]) as (process, port):
        yield Target("relay", port, process.pid)


@contextlib.contextmanager
def gateway(upstream: Target, durability: str) -> Iterator[Target]:
    """`specgate serve` as a user starts it, on a home of its own."""
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as home:
        env = {
            "SPECGATE_HOME": home,
            "HOST": "127.0.0.1",
            "PORT": "0",
            "SPECGATE_ENGINE_URL": upstream.url,
            "SPECGATE_WORKER_SECRET": SECRET,
            "SPECGATE_MODEL": "fake",
            "SPECGATE_DURABILITY": durability,
        }
        with _process([sys.executable, "-m", "gateway", "serve"], env) as (process, port):
            keys = json.loads((Path(home) / "credentials.json").read_text())
            target = Target(
                f"ours ({durability})", port, process.pid, "fake", keys["inference_key"], keys["operator_key"]
            )
            _wait_ready(target)
            _set_limits(target)
            yield target


def _set_limits(target: Target) -> None:
    """Far over what is asked, at two levels: each request is held against them all the same."""
    headers = {"authorization": f"Bearer {target.operator_key}", "if-match": "*"}
    limits = {"requests_per_minute": 10**7, "input_tokens_per_minute": 10**10, "output_tokens_per_minute": 10**10}
    public_id = target.key.split("-")[2]
    for subject, wanted in (("tenant/default", limits | {"concurrency": 10**4}), (f"key/{public_id}", limits)):
        answer = httpx.patch(f"{target.url}/admin/v1/limits/{subject}", json=wanted, headers=headers)
        answer.raise_for_status()
    time.sleep(1.5)  # remembered for a second


@contextlib.contextmanager
def litellm(upstream: Target) -> Iterator[Target | None]:
    """None where it is not installed: in this environment, or as the command that LITELLM names."""
    program = os.environ.get("LITELLM") or shutil.which("litellm", path=str(Path(sys.executable).parent))
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="specgate-bench-") as folder:
        config = Path(folder) / "config.yaml"
        params = {"model": "openai/fake", "api_base": f"{upstream.url}/v1", "api_key": "none"}
        config.write_text(json.dumps({"model_list": [{"model_name": "fake", "litellm_params": params}]}))
        port = 4000 + os.getpid() % 1000
        command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        with _process(command, says_port=port) as (process, _):
            target = Target("litellm", port, process.pid)
            _wait(lambda: httpx.get(f"{target.url}/health/liveliness").status_code == 200)
            yield target


@contextlib.contextmanager
def _process(
    command: Sequence[str], env: Mapping[str, str] | None = None, says_port: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECGATE_") and k != "DATABASE_URL"}
    given = kept | {"PYTHONUNBUFFERED": "1", "SPECGATE_HOLDOUT_RATE": "0"} | dict(env or {})
    out = subprocess.DEVNULL if says_port else subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=out, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process, says_port or _read_port(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _read_port(process: subprocess.Popen[str]) -> int:
    """Of its first line that names one: `{"port": 1}` or `Listening on http://host:1`."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r'"port": (\d+)|Listening on http://[\d.]+:(\d+)', line):
            return int(found[1] or found[2])
    raise RuntimeError(f"{process.args} ended with {process.wait()}")


def _wait_ready(target: Target) -> None:
    _wait(lambda: httpx.get(f"{target.url}/readyz").status_code == 200)


def _wait(condition: object) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if condition():  # type: ignore[operator]
                return
        time.sleep(0.05)
    raise RuntimeError(f"not ready within {READY_SECONDS} s")

"""`specgate serve` as a process of its own, as a user starts it; the ledger is proved when it has ended."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.ledger_proof import prove_apart

READY_SECONDS = 60
SPECGATE = [sys.executable, "-m", "gateway"]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Of the caller's, nothing that is a setting. Two threads: the tests' other process has the rest. No controls."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECGATE_") and k not in ("HOST", "DATABASE_URL")}
    return (
        kept | {"SPECGATE_HOME": str(home), "PORT": "0", "PYTHONUNBUFFERED": "1", "SPECGATE_HOLDOUT_RATE": "0"} | more
    )


class Served:
    """A running server and what it said so far."""

    def __init__(self, home: Path, command: Sequence[str] = (*SPECGATE, "serve"), **more: str) -> None:
        self.home, self.began, self.lines = home, time.monotonic(), list[str]()
        self.waited_for: dict[str, None] = {}
        """What /readyz said until it was ready, in order."""
        self.ready_after: float | None = None
        pipe = subprocess.PIPE
        env = environment(home, **more)
        self.process = subprocess.Popen(command, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            self.lines.extend(output)  # each line as it comes

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def url(self) -> str:
        return wait_for(lambda: re.search(r"Listening on (http://\S+)", self.output), READY_SECONDS, self.output)[1]

    @property
    def admin_url(self) -> str:
        """Where a bind of its own was set."""
        return wait_for(lambda: re.search(r"Admin routes are on (http://\S+)\.\n", self.output), 5, self.output)[1]

    @property
    def credentials(self) -> dict[str, str]:
        kept: dict[str, str] = json.loads((self.home / "credentials.json").read_text())
        return kept

    @property
    def engine_pid(self) -> int | None:
        children = [pid for pid in children_of(self.process.pid) if "--model-folder" in command_line(pid)]
        return children[0] if children else None

    def client(self, key: str = "inference_key") -> httpx.Client:
        headers = {"authorization": f"Bearer {self.credentials[key]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def wait_ready(self) -> None:
        wait_for(self._is_ready, READY_SECONDS, self.output)
        self.ready_after = self.ready_after or time.monotonic() - self.began
        wait_for(lambda: "curl http" in self.output, READY_SECONDS, self.output)

    def _is_ready(self) -> bool:
        answer = httpx.get(f"{self.url}/readyz")
        if answer.status_code == 503:
            assert "retry-after" in answer.headers
            self.waited_for[answer.json()["waits_for"]] = None
        return answer.status_code == 200

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 40) -> int:
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code


@contextlib.contextmanager
def served(home: Path, command: Sequence[str] = (*SPECGATE, "serve"), **more: str) -> Iterator[Served]:
    server = Served(home, command, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(10)
    url = more.get("DATABASE_URL") or f"sqlite+aiosqlite:///{home / 'specgate.db'}"
    prove_apart(url, is_over=server.process.returncode == 0)


def specgate(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*SPECGATE, *arguments]
    return subprocess.run(command, env=environment(home, **more), capture_output=True, text=True, timeout=100)


def wait_for(condition: Callable[[], Any], seconds: float, what: object = "") -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if value := condition():
                return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    return []


def command_line(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False

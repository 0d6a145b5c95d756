"""`specgate serve --workers N`: N gateways behind one socket.

The parent holds the home, opens the sockets, makes the keys, and starts again what dies; it answers nothing itself.
A worker is `specgate serve` with the sockets handed down, and with a home of its own under the parent's, since a home
names the owner of what a dead gateway left open. Workers end with their parent, however that ends: they hold the
other end of a pipe. Needs PostgreSQL (SQLite has one writer) and an engine that runs elsewhere (N processes would
start N of them).
"""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import typer
from sqlalchemy.engine import make_url

from gateway.bootstrap import Credentials, bootstrap
from gateway.cli.console import stop
from gateway.cli.start_up import key_lines
from gateway.metrics import shared
from gateway.server import SIGNALS, listen, url_of
from gateway.settings import Settings, config_file, presets, split_bind
from storage import Database

PAUSE_SECONDS = 1.0
"""Before a worker that lived shorter than this is started again."""
PASSED_ON = {"model": "SPECGATE_MODEL", "device": "SPECGATE_DEVICE"}


def serve_workers(settings: Settings, count: int) -> None:
    """Returns after a signal, when all ended; after `require_shared`. Raises PortTaken, HomeRefused, StorageError."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(listen(settings.host, settings.port))]
        if settings.admin_bind:
            sockets.append(stack.enter_context(listen(*split_bind(settings.admin_bind), "SPECGATE_ADMIN_BIND")))
        credentials = asyncio.run(_credentials(settings))
        url = url_of(sockets[0])
        typer.echo(f"Listening on {url} with {count} processes. {url}/readyz says what they wait for.")
        for line in key_lines(credentials, settings.home):
            typer.echo(line)
        asyncio.run(Workers(settings, credentials, sockets).run(count))


class Workers:
    def __init__(self, settings: Settings, credentials: Credentials, sockets: Sequence[socket.socket]) -> None:
        self._settings, self._credentials = settings, credentials
        self._metrics = shared.new_folder(settings.home)
        self._descriptors = tuple(one.fileno() for one in sockets)
        self._alive: dict[int, asyncio.subprocess.Process] = {}
        self._is_ending = asyncio.Event()

    async def run(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._pass_on, number)
        async with asyncio.TaskGroup() as group:
            for index in range(count):
                group.create_task(self._keep_alive(index))

    async def _keep_alive(self, index: int) -> None:
        while not self._is_ending.is_set():
            began = time.monotonic()
            code = await self._live(index)
            if not self._is_ending.is_set():
                typer.echo(f"Worker {index} ended with exit code {code} and is started again.")
                await asyncio.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - began)))

    async def _live(self, index: int) -> int:
        command = [sys.executable, "-m", "gateway", "serve", "--listeners", ",".join(map(str, self._descriptors))]
        # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            env=os.environ | self._environment(index),
            pass_fds=self._descriptors,
            start_new_session=True,
        )
        self._alive[index] = process
        if self._is_ending.is_set():
            process.terminate()
        return await process.wait()

    def _environment(self, index: int) -> Mapping[str, str]:
        settings, credentials = self._settings, self._credentials
        given = {PASSED_ON[name]: getattr(settings, name) for name in PASSED_ON if name in settings.model_fields_set}
        return given | {
            "SPECGATE_HOME": str(settings.home.absolute() / "workers" / str(index)),
            "SPECGATE_CONFIG": str(config_file().absolute()),
            shared.VARIABLE: str(self._metrics),
            "HOST": settings.host,
            "PORT": str(settings.port),
            "SPECGATE_BOOTSTRAP_KEY": credentials.inference_key,
            "SPECGATE_ADMIN_KEY": credentials.operator_key,
            "SPECGATE_SECRET": credentials.secret.decode(),
        }

    def _pass_on(self, number: signal.Signals) -> None:
        """The first drains, the second cuts, as with one process."""
        self._is_ending.set()
        for process in self._alive.values():
            if process.returncode is None:
                process.send_signal(number)


def end_with_parent(end: Callable[[], None]) -> None:
    """On the running loop: `end` is called when the other end of standard input is gone."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 1024):
            loop.remove_reader(stdin)
            end()

    loop.add_reader(stdin, read)


def require_shared(settings: Settings) -> None:
    """What several processes need is there, or the command ends."""
    if make_url(settings.database).get_backend_name() == "sqlite":
        stop(
            "--workers needs PostgreSQL: a SQLite file has one writer, and one process uses it best. "
            "Set DATABASE_URL=postgresql+psycopg://…, or leave --workers out.",
            2,
        )
    if settings.engine_url is None:
        stop(
            "--workers needs an engine that runs elsewhere, or each process would start one. Start it with "
            "`python -m inference` and set SPECGATE_ENGINE_URL and SPECGATE_WORKER_SECRET, or leave --workers out.",
            2,
        )


async def _credentials(settings: Settings) -> Credentials:
    """Made here, so that no two workers draw keys."""
    db = await Database.open(settings.database, durability=settings.durability)
    try:
        return await bootstrap(settings.home, db, **presets(settings))
    finally:
        await db.close()

"""Sockets, signals and uvicorn: applications are served until a signal, then drained.

    first SIGTERM or SIGINT     /readyz says 503, after `drain_notice_seconds` so do new requests;
                                open answers may finish for `drain_seconds`
    second                      open answers are cut now: error event, settled
    third                       the servers stop waiting for anything

The listening sockets stay open while it drains, so that probes and clients are told why.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Mapping

import uvicorn
from starlette.types import ASGIApp

from gateway.drain import Drain
from gateway.malformed import Http
from gateway.settings import Settings

SIGNALS = (signal.SIGINT, signal.SIGTERM)
IDLE_CONNECTION_SECONDS = 75
"""Longer than the pools of common clients keep one, so that the server is never the first to close."""
CLOSING_SECONDS = 5
BACKLOG = 2048


class PortTaken(Exception):
    """The message says how to choose another."""


def listen(host: str, port: int, variable: str = "PORT") -> socket.socket:
    """Listening at once: a port that is only bound could still be bound by another. Raises PortTaken."""
    listener = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = error.strerror or "it cannot be bound"
        raise PortTaken(f"Cannot listen on {host}:{port}: {reason}. Choose another with {variable}=….") from error
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve_until_signal(
    apps: Mapping[socket.socket, ASGIApp], drain: Drain, settings: Settings, on_started: Callable[[], None]
) -> None:
    """Returns when all is drained and closed."""
    servers = [Server(app) for app in apps.values()]
    with _drained_by_signals(servers, drain, settings):
        async with asyncio.TaskGroup() as group:
            for server, listener in zip(servers, apps, strict=True):
                group.create_task(server.serve([listener]))
            while not all(server.started for server in servers):
                await asyncio.sleep(0.01)
            on_started()


class Server(uvicorn.Server):
    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            http=Http,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_CONNECTION_SECONDS,
            timeout_graceful_shutdown=CLOSING_SECONDS,
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: a drain comes before the end."""
        yield


@contextlib.contextmanager
def _drained_by_signals(servers: list[Server], drain: Drain, settings: Settings) -> Iterator[None]:
    drains: list[asyncio.Task[None]] = []

    async def drained() -> None:
        await drain.run(settings.drain_seconds, settings.settle_seconds + 1, settings.drain_notice_seconds)
        for server in servers:
            server.should_exit = True

    def on_signal() -> None:
        if not drains:
            drains.append(asyncio.create_task(drained()))
        elif not drain.cut.is_set():
            drain.cut.set()
        else:
            for server in servers:
                server.should_exit = server.force_exit = True

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

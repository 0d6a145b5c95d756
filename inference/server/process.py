"""The worker as a process: bind, say the port, load, serve, end.

It ends with its parent (whose end of the pipe on standard input closes, whatever killed it), on SIGTERM after the
open streams, and with exit code 1 when model or engine fail, so that whoever supervises it starts another.
"""

import asyncio
import contextlib
import ctypes
import ipaddress
import json
import logging
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from inference.server.app import create_app
from inference.server.service import Progress, ServedEngine, Service

PR_SET_PDEATHSIG = 1
DRAIN_SECONDS = 5
"""For open streams after SIGTERM; the gateway drains first, so there are none as a rule."""
LAST_WORDS_SECONDS = 1.0
"""For streams and /readyz to say what failed before the process ends."""
POLL_SECONDS = 0.1

_log = logging.getLogger(__name__)


class QuietServer(uvicorn.Server):
    """uvicorn without its own signal handlers, which end the process by the signal instead of exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_worker(listener: socket.socket, secret: str, build: Callable[[Progress], ServedEngine]) -> int:
    """Serve until told to end; returns the exit code."""
    announce(listener)
    end_with_parent(sys.stdin.fileno())
    service = Service()
    service.start_loading(build)
    asyncio.run(_serve(service, listener, secret))
    if service.failure:
        _log.error("ending: %s", service.failure)
        return 1
    return 0


def bind(host: str, port: int) -> socket.socket:
    """Only where the world cannot come by: loopback or a private address, or a name of one. Port 0: any free one."""
    family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    address = ipaddress.ip_address(found[0])
    if address.is_unspecified or not (address.is_loopback or address.is_private):
        raise ValueError(f"{host} is neither a loopback nor a private address; the worker serves gateways only")
    return socket.create_server((str(address), port), family=family)


def announce(listener: socket.socket) -> None:
    """The first line of standard output, and the only one."""
    sys.stdout.write(json.dumps({"port": listener.getsockname()[1]}) + "\n")
    sys.stdout.flush()


def end_with_parent(stdin: int) -> None:
    """Watch a pipe from the parent. A terminal or /dev/null is no pipe, and says nothing about a parent."""
    mode = os.fstat(stdin).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_end_at_eof, args=(stdin,), name="parent watch", daemon=True).start()


def die_with_parent() -> None:
    """Where the kernel can see to it (Linux), it does: a watching thread may wait for its turn on a busy machine.

    prctl(2), PR_SET_PDEATHSIG. The parent's thread that started this process must live as long as the parent.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(0)


def _end_at_eof(stdin: int) -> None:
    with contextlib.suppress(OSError):  # a socket whose other side was killed may say so by an error
        while os.read(stdin, 4096):
            pass
    # Nothing to hand back and nobody to tell: the engine may be inside a pass that takes seconds.
    os._exit(0)


async def _serve(service: Service, listener: socket.socket, secret: str) -> None:
    server = QuietServer(server_config(create_app(service, secret)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _drain, service, server)
    watch = asyncio.create_task(_end_on_failure(service, server))
    await server.serve(sockets=[listener])
    watch.cancel()


def server_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=60,
    )


def _drain(service: Service, server: uvicorn.Server) -> None:
    """A second signal cuts now."""
    server.force_exit = service.draining
    service.draining = server.should_exit = True


async def _end_on_failure(service: Service, server: uvicorn.Server) -> None:
    while not service.failure:
        await asyncio.sleep(POLL_SECONDS)
    await asyncio.sleep(LAST_WORDS_SECONDS)
    server.should_exit = server.force_exit = True

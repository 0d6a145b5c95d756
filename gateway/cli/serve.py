"""`specgate serve`: home → model → engine process → gateway, until a signal."""

import asyncio
import gc
import io
import os
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console

from gateway.bootstrap import HomeRefused, check_presets, read_credentials, take_home
from gateway.cli.console import load_settings, stop
from gateway.cli.model_folder import model_folder
from gateway.cli.start_up import tell
from gateway.cli.workers import end_with_parent, require_shared, serve_workers
from gateway.deployments.first import model_name
from gateway.deployments.local_engine import Engines
from gateway.home import append_private
from gateway.metrics.shared import take_place
from gateway.serve import Started
from gateway.serve import serve as serve_gateway
from gateway.server import PortTaken, listen
from gateway.settings import Settings, presets
from gateway.telemetry import log_to
from storage import StorageError

LOG = "gateway.log"


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0: any free one (PORT).")] = None,
    home: Annotated[Path | None, typer.Option(help="Folder of all state (SPECGATE_HOME).")] = None,
    model: Annotated[str | None, typer.Option(help="A catalogue name or a local folder (SPECGATE_MODEL).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N (SPECGATE_DEVICE).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes on the one port; several need PostgreSQL.")] = 1,
    listeners: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start the gateway and its engine on this machine; Ctrl-C drains and stops both."""
    if home is not None:
        os.environ["SPECGATE_HOME"] = str(home)  # also where the settings file is looked for
    settings = load_settings(host=host, port=port, model=model, device=device)
    try:
        with take_home(settings.home):
            if listeners is None:
                _require_free_ports(settings)
            if workers > 1:
                require_shared(settings)
            _prepare(settings)
            if workers > 1:
                serve_workers(settings, workers)
                return
            with io.TextIOWrapper(append_private(settings.home / LOG), write_through=True) as log:
                log_to(log)
                _rest_the_collector()
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(_run(settings) if listeners is None else _run_worker(settings, listeners))
    except (PortTaken, HomeRefused, StorageError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        stop("interrupted before it was ready. The next start goes on from here.", 130)
    typer.echo("Stopped: every open request was answered or cut, and settled.")


def _rest_the_collector() -> None:
    """What was imported stays; looking through it again and again costs a tenth of every request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def _require_free_ports(settings: Settings) -> None:
    """Before a model is fetched for nothing. Raises PortTaken."""
    listen(settings.host, settings.port).close()


async def _run(settings: Settings) -> None:
    telling: list[asyncio.Task[None]] = []

    def announce(started: Started) -> None:
        name = _name_to_try(started, settings)
        telling.append(asyncio.create_task(tell(started, started.fleet, name, settings.home, typer.echo)))

    try:
        await serve_gateway(settings, Engines(settings), announce)
    finally:
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)


async def _run_worker(settings: Settings, descriptors: str) -> None:
    """One of several (`workers`), which say nothing: their parent does."""
    end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    take_place(settings.home.name)
    sockets = [socket.socket(fileno=int(one)) for one in descriptors.split(",")]
    await serve_gateway(settings, Engines(settings), lambda started: None, sockets)


def _prepare(settings: Settings) -> None:
    """What the first start should not do without being seen (later ones do it in the background), and before it,
    what would be refused only after it. Raises HomeRefused."""
    check_presets(settings.home, **presets(settings))
    if settings.engine_url is None and read_credentials(settings.home) is None:
        model_folder(settings.model, settings.home, Console())
    if settings.engine_url is not None and settings.worker_secret is None:
        stop("SPECGATE_ENGINE_URL needs SPECGATE_WORKER_SECRET, the secret that the engine was started with.", 2)


def _name_to_try(started: Started, settings: Settings) -> str:
    enabled = [name for name, state in started.fleet.states.items() if state.phase != "disabled"]
    return enabled[0] if enabled else model_name(settings.model)

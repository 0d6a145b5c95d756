"""`specgate serve`: home → model → engine process → gateway, until a signal."""

import asyncio
import os
import secrets
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from sqlalchemy.exc import ArgumentError

from gateway.bootstrap import HomeRefused, take_home
from gateway.cli.console import load_settings, stop
from gateway.cli.model_folder import model_folder
from gateway.cli.start_up import tell
from gateway.remote_engine import RemoteEngine
from gateway.serve import EngineHost, Started, model_name
from gateway.serve import serve as serve_gateway
from gateway.server import PortTaken, listen
from gateway.settings import Settings
from gateway.supervisor import Supervisor
from gateway.telemetry import log_to
from storage import StorageError

LOG = "gateway.log"


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0: any free one (PORT).")] = None,
    home: Annotated[Path | None, typer.Option(help="Folder of all state (SPECGATE_HOME).")] = None,
    model: Annotated[str | None, typer.Option(help="A catalogue name or a local folder (SPECGATE_MODEL).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda (SPECGATE_DEVICE).")] = None,
) -> None:
    """Start the gateway and its engine on this machine; Ctrl-C drains and stops both."""
    if home is not None:
        os.environ["SPECGATE_HOME"] = str(home)  # also where the settings file is looked for
    settings = load_settings(host=host, port=port, model=model, device=device)
    try:
        with take_home(settings.home):
            _require_free_ports(settings)
            folder = None if settings.engine_url else model_folder(settings.model, settings.home, Console())
            with (settings.home / LOG).open("a") as log:
                log_to(log)
                asyncio.run(_run(settings, folder))
    except (PortTaken, HomeRefused, StorageError, ArgumentError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        stop("interrupted before it was ready. The next start goes on from here.", 130)
    typer.echo("Stopped: every open request was answered or cut, and settled.")


def _require_free_ports(settings: Settings) -> None:
    """Before a model is fetched for nothing. Raises PortTaken."""
    listen(settings.host, settings.port).close()


async def _run(settings: Settings, folder: Path | None) -> None:
    async with _engine(settings, folder) as engine:
        telling: list[asyncio.Task[None]] = []

        def announce(started: Started) -> None:
            name = model_name(settings.model)
            telling.append(asyncio.create_task(tell(started, engine, name, settings.home, typer.echo)))

        try:
            await serve_gateway(settings, engine, announce)
        finally:
            for task in telling:
                task.cancel()
            await asyncio.gather(*telling, return_exceptions=True)


def _engine(settings: Settings, folder: Path | None) -> AbstractAsyncContextManager[EngineHost]:
    if folder is None:
        assert settings.engine_url is not None
        if settings.worker_secret is None:
            stop("SPECGATE_ENGINE_URL needs SPECGATE_WORKER_SECRET, the secret that the engine was started with.", 2)
        return RemoteEngine(settings.engine_url, settings.worker_secret.get_secret_value())
    secret = settings.worker_secret.get_secret_value() if settings.worker_secret else secrets.token_urlsafe(32)
    return Supervisor(worker_command(settings, folder), secret, settings.home / "engine.log")


def worker_command(settings: Settings, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "inference", "--child", "--host", "127.0.0.1", "--port", "0"]
    command += ["--model-folder", str(folder), "--model-name", model_name(settings.model), "--device", settings.device]
    if settings.dtype:
        command += ["--dtype", settings.dtype]
    if settings.max_model_len:
        command += ["--max-model-len", str(settings.max_model_len)]
    return command

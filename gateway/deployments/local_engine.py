"""How the engines of this machine are started: the model fetched if need be, then a process that is kept alive.

Where a deployment names an engine that runs elsewhere, that one is asked and nothing is started.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Self

from gateway.deployments.host import EngineHost, Wanted
from gateway.deployments.model_source import OnProgress, SourceRefused, fetch
from gateway.remote_engine import RemoteEngine
from gateway.settings import Settings
from gateway.supervisor import EngineState, Supervisor, log
from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent, WorkerLoad, WorkerReady
from inference.speculation_config import SpeculationConfig
from storage.deployments import FIRST
from storage.values.deployments import Deployment

UNPREPARED = "The model is not to be had. An operator can see why."


class LocalEngine:
    """An engine process on its way: while its model is fetched, `state` says how far that is."""

    def __init__(
        self, prepare: Callable[[OnProgress], Awaitable[Path]], supervise: Callable[[Path], Supervisor]
    ) -> None:
        self._prepare, self._supervise = prepare, supervise
        self._supervisor: Supervisor | None = None
        self._task: asyncio.Task[None] | None = None
        self._before = EngineState("starting", "The model is being looked for.")

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="engine")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def state(self) -> EngineState:
        return self._supervisor.state if self._supervisor else self._before

    def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        return self._present().generate(request)

    async def abort(self, request_id: str) -> None:
        if self._supervisor is not None:
            await self._supervisor.abort(request_id)

    async def ready(self) -> WorkerReady:
        return await self._present().ready()

    async def load(self) -> WorkerLoad:
        return await self._present().load()

    async def set_speculation(self, config: SpeculationConfig) -> None:
        await self._present().set_speculation(config)

    def _present(self) -> Supervisor:
        if self._supervisor is None:
            raise EngineError(503, "engine_unavailable", self._before.detail)
        return self._supervisor

    async def _run(self) -> None:
        try:
            folder = await self._prepare(self._tell)
        except (SourceRefused, OSError) as refusal:
            self._before = EngineState("failed", UNPREPARED, cause=str(refusal))
            log.warning("model", extra={"fields": {"detail": UNPREPARED, "cause": str(refusal)}})
            return
        async with self._supervise(folder) as self._supervisor:
            await asyncio.Event().wait()

    def _tell(self, stage: str) -> None:
        self._before = EngineState("starting", f"{stage}.")


class Engines:
    """Starts engines as the settings say. One secret for all that are started here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        given = settings.worker_secret
        self._given = given.get_secret_value() if given else ""
        self._secret = self._given or secrets.token_urlsafe(32)

    def __call__(self, deployment: Deployment, index: int, wanted: Wanted) -> AbstractAsyncContextManager[EngineHost]:
        url = deployment.spec.engine_url or (self._settings.engine_url if deployment.id == FIRST else None)
        if url is not None:
            return RemoteEngine(url, self._given)
        return LocalEngine(
            lambda tell: fetch(deployment.spec.model, self._settings.home, tell),
            lambda folder: Supervisor(
                worker_command(deployment, folder),
                self._secret,
                log_of(deployment.id, index, self._settings.home),
                more=lambda: ["--speculation", wanted().model_dump_json()],
            ),
        )


def worker_command(deployment: Deployment, folder: Path) -> list[str]:
    spec = deployment.spec
    command = [sys.executable, "-m", "inference", "--child", "--host", "127.0.0.1", "--port", "0"]
    command += ["--model-folder", str(folder), "--model-name", spec.name, "--device", spec.device]
    command += ["--max-sequences", str(spec.max_sequences)]
    optional = {
        "--dtype": spec.dtype,
        "--max-model-len": spec.max_model_len,
        "--cache-gib": spec.cache_gib,
        "--revision": spec.revision,
    }
    return command + [part for name, value in optional.items() if value is not None for part in (name, str(value))]


def log_of(deployment_id: str, index: int, home: Path) -> Path:
    """`engine.log` for the first one, which most installations have alone."""
    is_first = deployment_id == FIRST and index == 0
    return home / ("engine.log" if is_first else f"engine-{deployment_id}-{index}.log")

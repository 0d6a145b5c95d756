"""What this process serves: nothing yet, an engine, or the reason why not."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from inference.config import SpeculationConfig
from inference.model.errors import ModelRefused
from inference.protocol import EngineError, Failure, TokenEvent, WorkerLoad, WorkerReady
from inference.sequence import Sequence
from inference.server.intake import Intake
from inference.server.outbox import Outbox

_log = logging.getLogger(__name__)

Progress = Callable[[str], None]
"""Told what is being waited for."""


class EngineWorker(Protocol):
    """The engine's thread, as the server uses it (`engine/worker.py`)."""

    @property
    def failure(self) -> str | None: ...

    def submit(self, sequences: list[Sequence], deliver: Callable[[TokenEvent | Failure], None]) -> None: ...

    def abort(self, request_id: str) -> None: ...

    def set_speculation(self, config: SpeculationConfig) -> Future[None]: ...

    def refusal(self, cache_salt: str) -> Failure | None: ...

    def load(self) -> WorkerLoad: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """A loaded engine and what stands before it."""

    intake: Intake
    worker: EngineWorker
    ready: WorkerReady


@dataclass(slots=True)
class Service:
    """Changed by the loading thread and by the event loop, each its own members."""

    waiting_for: str | None = "the process to start loading the model"
    engine: ServedEngine | None = None
    load_failure: str | None = None
    is_refused: bool = False
    """The failure is the model's or the settings': loading it again would end the same way."""
    draining: bool = False
    open_requests: dict[str, Outbox] = field(default_factory=dict)

    @property
    def failure(self) -> str | None:
        """Why this process will never serve again."""
        return self.load_failure or (self.engine.worker.failure if self.engine else None)

    def serving(self) -> ServedEngine:
        """Raises EngineError where nothing can be served now."""
        if self.failure:
            raise EngineError(503, "engine_failed", f"The engine failed: {self.failure}")
        if self.draining:
            raise EngineError(503, "engine_draining", "The engine is shutting down; ask another one.")
        if self.engine is None:
            raise EngineError(503, "engine_starting", f"The engine waits for {self.waiting_for}.")
        return self.engine

    def start_loading(self, build: Callable[[Progress], ServedEngine]) -> None:
        """On a thread of its own, so that the port answers meanwhile."""
        threading.Thread(target=self._load, args=(build,), name="loading", daemon=True).start()

    def _load(self, build: Callable[[Progress], ServedEngine]) -> None:
        try:
            self.engine = build(self._wait_for)
            self.waiting_for = None
        except Exception as error:  # noqa: BLE001 - whatever went wrong, /readyz must name it
            self.is_refused = isinstance(error, (ModelRefused, ValueError))
            _log.error("the model could not be loaded", exc_info=error)
            self.load_failure = f"the model could not be loaded: {error}"

    def _wait_for(self, what: str) -> None:
        _log.info("waiting for %s", what)
        self.waiting_for = what

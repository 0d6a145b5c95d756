"""The thread that runs the engine: commands, then a step, then delivery; and what happens when a step fails.

Everything that touches the engine happens on this thread, between two steps. `deliver` is called on it too, so it must
only hand the event on (the server uses `loop.call_soon_threadsafe`).
"""

import logging
import queue
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future

from inference.config import SpeculationConfig
from inference.engine.engine import Engine, StepOutput
from inference.engine.queue_limit import refusal
from inference.protocol import EngineError, Failure, TokenEvent, WorkerLoad
from inference.sequence import Sequence

Deliver = Callable[[TokenEvent | Failure], None]
Command = Callable[[], None]

_log = logging.getLogger(__name__)


class Worker:
    """Runs one engine until `close`, or until a step raises: then every open request fails and `failure` says why."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._deliver: dict[str, Deliver] = {}
        self._open_choices: dict[str, int] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._load, self._queues = engine.load(), engine.queues()
        self.failure: str | None = None

    def start(self) -> None:
        self._thread.start()

    def submit(self, sequences: list[Sequence], deliver: Deliver) -> None:
        """Run the choices of one request; `deliver` gets each event, and a Failure if the engine breaks."""
        self._inbox.put(lambda: self._submit(sequences, deliver))

    def abort(self, request_id: str) -> None:
        self._inbox.put(lambda: self._abort(request_id))

    def set_speculation(self, config: SpeculationConfig) -> Future[None]:
        """Done once it is at work. Fails, and leaves the old one at work, where it is older or cannot be built."""
        applied: Future[None] = Future()
        self._inbox.put(lambda: self._set_speculation(config, applied))
        return applied

    def load(self) -> WorkerLoad:
        """As of the last step."""
        return self._load

    def refusal(self, cache_salt: str) -> Failure | None:
        """Why a new request under this salt should not queue; as of the last step."""
        return refusal(self._queues.get(cache_salt), self._engine.max_queue_seconds)

    def close(self) -> None:
        """Stop after the step in progress; requests still open are not answered."""
        self._inbox.put(self._close)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._take_commands()
                if self._engine.has_work and not self._closing:
                    self._hand_out(self._engine.step())
                    self._refuse_overdue()
                self._look()
        except Exception as error:  # noqa: BLE001 - whatever broke, open requests must hear of it
            self._fail(error)

    def _take_commands(self) -> None:
        """Run what lies in the inbox; wait for something only when there is no work."""
        try:
            while True:
                self._inbox.get(block=not self._engine.has_work and not self._closing)()
                self._look()
        except queue.Empty:
            return

    def _submit(self, sequences: list[Sequence], deliver: Deliver) -> None:
        request_id = sequences[0].request_id
        if self.failure:
            deliver(Failure(status=503, code="engine_failed", message=self.failure))
            return
        self._deliver[request_id] = deliver
        self._open_choices[request_id] = len(sequences)
        for seq in sequences:
            self._engine.add(seq)

    def _look(self) -> None:
        self._load, self._queues = self._engine.load(), self._engine.queues()

    def _refuse_overdue(self) -> None:
        for request_id, failure in self._engine.refuse_overdue().items():
            del self._open_choices[request_id]
            self._deliver.pop(request_id)(failure)

    def _set_speculation(self, config: SpeculationConfig, applied: Future[None]) -> None:
        current = self._engine.speculation
        try:
            if config.origin == current.origin and config.version < current.version:
                told = f"Version {config.version} is older than version {current.version}, which is at work."
                raise EngineError(409, "stale_configuration", told)
            if config != current:
                self._engine.set_speculation(config)
            applied.set_result(None)
        except Exception as error:  # noqa: BLE001 - the caller hears of it; the old drafter goes on
            applied.set_exception(error)

    def _abort(self, request_id: str) -> None:
        if not self.failure:
            self._hand_out(self._engine.abort(request_id))

    def _hand_out(self, outputs: list[StepOutput]) -> None:
        for output in outputs:
            self._deliver[output.request_id](output.event)
            if output.event.finish_reason:
                self._open_choices[output.request_id] -= 1
            if not self._open_choices[output.request_id]:
                del self._deliver[output.request_id], self._open_choices[output.request_id]

    def _fail(self, error: Exception) -> None:
        """A step that raised leaves the cache in doubt: end everything, and let the process be replaced."""
        # Only where, not what: an exception's message may quote a request.
        where = "".join(traceback.format_tb(error.__traceback__))
        _log.error("the engine stopped on %s\n%s", type(error).__name__, where)
        self.failure = f"the engine stopped on {type(error).__name__}; its log has the trace"
        failure = Failure(status=500, code="engine_failed", message=self.failure)
        for deliver in self._deliver.values():
            deliver(failure)
        self._deliver.clear()
        while not self._closing:
            self._inbox.get()()

    def _close(self) -> None:
        self._closing = True

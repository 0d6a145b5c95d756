"""Keeps one engine process alive beside the gateway, and speaks for it while it is not there.

    async with Supervisor(worker_command(folder), secret, log) as engine:
        await engine.wait_ready()
        async for event in engine.generate(request): ...

The child runs in a process group of its own, so that Ctrl-C reaches the gateway alone, which drains first. It holds
the reading end of a pipe whose other end dies with the gateway: whatever ends the gateway ends the engine. A child
that dies is started again after a growing pause; five deaths within a minute end that, and so does a model that the
engine refuses: `state` says why.
Knows no torch: the engine is a command, a port and a client.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, Self

from gateway.home import append_private
from inference.client import HttpInferenceClient
from inference.protocol import (
    Accepted,
    EngineError,
    GenerationRequest,
    InferenceClient,
    TokenEvent,
    WorkerLoad,
    WorkerReady,
)
from inference.speculation_config import SpeculationConfig

Phase = Literal["starting", "loading", "ready", "restarting", "failed", "stopped"]
REFUSED = "The engine cannot load this model. An operator can see why."
FAILED = "It said that it failed."
log = logging.getLogger("specgate.engine")
TAIL = 2000
"""Bytes of a dead engine's log that its state repeats."""


class EngineProcessClient(InferenceClient, Protocol):
    """What the supervisor asks of a client besides generating."""

    async def ready(self) -> WorkerReady: ...

    async def load(self) -> WorkerLoad: ...

    async def set_speculation(self, config: SpeculationConfig) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine process is doing, in words that /readyz may say to anybody."""

    phase: Phase
    detail: str
    pid: int | None = None
    restarts: int = 0
    cause: str = field(default="", repr=False)
    """What the engine and its log say of it, with paths: for the terminal, the log and operators."""


@dataclass(frozen=True, slots=True)
class Death:
    """How a life of the child ended: what anybody may hear, and what only operators may."""

    told: str
    cause: str


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a dead engine comes back. Seconds."""

    crashes: int = 5
    window: float = 60.0
    first_delay: float = 0.2
    longest_delay: float = 5.0
    poll: float = 0.1
    """Between two questions to a loading engine; a ready one is asked ten times more rarely."""
    patience: float = 60.0
    """A ready engine that answers nothing for so long is taken for hung."""
    grace: float = 3.0
    """Between asking it to end and killing it."""
    log_bytes: int = 10 * 2**20
    """A log longer than this is put aside at the next start; the one before is kept."""

    def delay(self, recent_crashes: int) -> float:
        return min(self.longest_delay, self.first_delay * 2.0 ** (recent_crashes - 1))


class Refused(Exception):
    """The engine will never load this model; says why."""


class Supervisor:
    """The engine child as an `InferenceClient`: requests that come while it is away get a 503 that says so.

    `more`: arguments that differ from start to start, asked at each.
    """

    def __init__(
        self,
        command: Sequence[str],
        secret: str,
        log: Path,
        connect: Callable[[str, str], EngineProcessClient] = HttpInferenceClient,
        policy: RestartPolicy = RestartPolicy(),
        more: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._command, self._more, self._secret, self._log = tuple(command), more, secret, log
        self._connect, self._policy = connect, policy
        self._client: EngineProcessClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self.state = EngineState("starting", "The engine process is starting.")

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_alive(), name="engine supervisor")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._become("stopped", "The engine was stopped with the gateway.", None)

    async def wait_ready(self) -> EngineState:
        """Returns when the engine is ready or given up."""
        await self._settled.wait()
        return self.state

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        events = self._present().generate(request)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def abort(self, request_id: str) -> None:
        if self._client is not None:
            await self._client.abort(request_id)

    async def ready(self) -> WorkerReady:
        """What the engine says of itself. Raises EngineError while it is not ready."""
        return await self._present().ready()

    async def load(self) -> WorkerLoad:
        """How busy it is. Raises EngineError while it is not ready."""
        return await self._present().load()

    async def set_speculation(self, config: SpeculationConfig) -> None:
        """Raises EngineError where it is not ready, or keeps the drafters it has."""
        await self._present().set_speculation(config)

    def _present(self) -> EngineProcessClient:
        if self._client is None:
            raise EngineError(503, "engine_unavailable", self.state.detail)
        return self._client

    def _become(self, phase: Phase, detail: str, pid: int | None, restarts: int | None = None, cause: str = "") -> None:
        self.state = EngineState(phase, detail, pid, self.state.restarts if restarts is None else restarts, cause)
        if cause:
            log.warning("engine", extra={"fields": {"phase": phase, "detail": detail, "cause": cause}})
        if phase in ("ready", "failed", "stopped"):
            self._settled.set()
        else:
            self._settled.clear()

    async def _keep_alive(self) -> None:
        crashes: deque[float] = deque()
        while True:
            try:
                death = await self._live()
            except Refused as refusal:
                self._become("failed", REFUSED, None, cause=str(refusal))
                return
            now = time.monotonic()
            crashes.append(now)
            while crashes[0] < now - self._policy.window:
                crashes.popleft()
            if len(crashes) >= self._policy.crashes:
                times = f"{len(crashes)} times in {self._policy.window:.0f} s"
                told = f"The engine died {times} and is not started again. {death.told}"
                self._become("failed", told, None, cause=f"{death.cause} Mend that and restart the gateway.")
                return
            told = f"The engine is being started again. {death.told}"
            self._become("restarting", told, None, self.state.restarts + 1, death.cause)
            await asyncio.sleep(self._policy.delay(len(crashes)))

    async def _live(self) -> Death:
        """One life of the child; returns how it ended. Cancelled, it takes the child along."""
        with _open_log(self._log, self._policy.log_bytes) as log:
            start = log.tell()
            try:
                process = await self._spawn(log.fileno())
            except OSError as error:
                return Death("It could not be started.", f"It could not be started: {error}.")
            try:
                reason = await self._attend(process)
            finally:
                self._client = None
                await _end(process, self._policy.grace)
        told = reason.told if reason else _verdict(process.returncode)
        return Death(told, f"{reason.cause if reason else told}{_tail(self._log, start)}")

    async def _spawn(self, log: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        # PASSIVE: threads that wait for work must sleep, or one other busy process makes a pass ten times slower.
        env = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | {"SPECGATE_WORKER_SECRET": self._secret}
        return await asyncio.create_subprocess_exec(
            *self._command, *self._more(), stdin=pipe, stdout=pipe, stderr=log, env=env, start_new_session=True
        )

    async def _attend(self, process: asyncio.subprocess.Process) -> Death | None:
        """Connect, wait until it is ready, then until it dies. Returns a reason other than its own death."""
        self._become("starting", "The engine process is starting.", process.pid)
        port = await _read_port(process)
        if port is None:
            return None
        client = self._connect(f"http://127.0.0.1:{port}", self._secret)
        try:
            async with _draining(process):
                return await self._watch(process, client)
        finally:
            await client.aclose()

    async def _watch(self, process: asyncio.subprocess.Process, client: EngineProcessClient) -> Death | None:
        heard = time.monotonic()
        while process.returncode is None:
            problem = await ask(client)
            if problem is None:
                heard = time.monotonic()
                if self._client is None:
                    self._client = client
                    self._become("ready", "The engine is ready.", process.pid)
            elif problem.failure.code == "model_refused":
                raise Refused(str(problem))
            elif problem.failure.status == 500:
                return Death(FAILED, f"It said: {problem}")
            elif self._client is None:
                self._become("loading", str(problem), process.pid)
            elif time.monotonic() - heard > self._policy.patience:
                told = f"It answered nothing for {self._policy.patience:.0f} s."
                return Death(told, told)
            pause = self._policy.poll * (10 if self._client else 1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), pause)
        return None


def _open_log(path: Path, limit: int) -> BinaryIO:
    if path.exists() and path.stat().st_size > limit:
        path.replace(path.with_suffix(".log.1"))
    return append_private(path)


async def _read_port(process: asyncio.subprocess.Process) -> int | None:
    """The worker's first JSON line says its port; None: it ended before."""
    assert process.stdout is not None
    async for line in process.stdout:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["port"])
    return None


@contextlib.asynccontextmanager
async def _draining(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Whatever else the child prints is read and dropped, so that it never blocks on a full pipe."""
    assert process.stdout is not None
    task = asyncio.create_task(process.stdout.read())
    try:
        yield
    finally:
        task.cancel()


async def ask(client: EngineProcessClient) -> EngineError | None:
    """None: it is ready. Otherwise what it waits for."""
    try:
        async with asyncio.timeout(10):
            await client.ready()
    except EngineError as error:
        return error
    except (TimeoutError, OSError):
        return EngineError(503, "engine_unavailable", "The engine process does not answer yet.")
    return None


async def _end(process: asyncio.subprocess.Process, grace: float) -> None:
    """Ask it to end, then insist, and sweep its group: nothing that it started stays."""
    assert process.stdin is not None
    process.stdin.close()
    _signal_group(process.pid, signal.SIGTERM)
    try:
        deadline = time.monotonic() + grace
        while process.returncode is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
    # Not before the sweep: it also waits for every holder of the child's stdout.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), grace)


def _signal_group(leader: int, number: signal.Signals) -> None:
    """Not by the process object, which collects a child that has just ended and so hides how it ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _verdict(returncode: int | None) -> str:
    if returncode is not None and returncode < 0:
        return f"It was killed by {signal.Signals(-returncode).name}."
    return f"It ended with exit code {returncode}."


def _tail(log: Path, start: int) -> str:
    """The last lines that this life of the child left in its log."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - TAIL))
        text = file.read().decode(errors="replace").strip()
        if text:
            return f" Its log {log} ends: {text}"
    return f" Its log is {log}."

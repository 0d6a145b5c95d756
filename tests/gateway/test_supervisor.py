"""The engine child: started, watched, started again, given up, and never left behind. The children are tiny scripts."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.supervisor import EngineState, RestartPolicy, Supervisor
from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent, WorkerReady

pytestmark = pytest.mark.anyio

QUICK = RestartPolicy(first_delay=0.01, poll=0.01, grace=0.5)
REQUEST = GenerationRequest(request_id="r", prompt="x")
SERVES = 'import sys; print("warming up"); print(\'{"port": 7}\', flush=True); sys.stdin.read()'
CRASHES = "import sys; sys.exit('no such model folder')"
STUBBORN = (
    "import signal, sys, time, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print('{\"port\": %d}' % child.pid, flush=True); time.sleep(60)"
)


class Client:
    """Ready unless told otherwise; generates one event."""

    def __init__(self, base_url: str, secret: str, trouble: EngineError | None = None) -> None:
        self.base_url, self.secret, self.trouble, self.closed = base_url, secret, trouble, False

    async def ready(self) -> WorkerReady:
        if self.trouble:
            raise self.trouble
        return WorkerReady(model="tiny", max_model_len=64, vocab_size=9, fingerprint="f")

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        yield Accepted(prompt_tokens=len(request.request_id))

    async def abort(self, request_id: str) -> None: ...

    async def aclose(self) -> None:
        self.closed = True


def supervise(script: str, folder: Path, connect: Callable[[str, str], Client] = Client) -> Supervisor:
    return Supervisor([sys.executable, "-c", script], "a secret", folder / "engine.log", connect, QUICK)


def exists(pid: int) -> bool:
    """Whether the process lives; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def settled(engine: Supervisor) -> EngineState:
    async with asyncio.timeout(20):
        return await engine.wait_ready()


async def test_a_child_becomes_ready_answers_and_is_let_go(tmp_path: Path) -> None:
    clients: list[Client] = []

    def connect(base_url: str, secret: str) -> Client:
        clients.append(Client(base_url, secret))
        return clients[-1]

    async with supervise(SERVES, tmp_path, connect) as engine:
        state = await settled(engine)
        assert (state.phase, state.restarts) == ("ready", 0)
        assert [event async for event in engine.generate(REQUEST)] == [Accepted(prompt_tokens=1)]
        assert state.pid is not None
        assert exists(state.pid)
    assert not exists(state.pid)
    assert engine.state.phase == "stopped"
    assert [(c.base_url, c.secret, c.closed) for c in clients] == [("http://127.0.0.1:7", "a secret", True)]


async def test_the_child_gets_the_secret_by_environment_and_waits_passively(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'w').write(os.environ['SPECGATE_WORKER_SECRET'] + "
    script += f"' ' + os.environ['OMP_WAIT_POLICY'] + ' ' + str(os.getpgid(0) == os.getpid()))\n{SERVES}"
    async with supervise(script, tmp_path) as engine:
        await settled(engine)
    assert told.read_text() == "a secret PASSIVE True"


async def test_until_it_is_ready_requests_are_told_what_it_waits_for(tmp_path: Path) -> None:
    loading = EngineError(503, "loading", "The model is being loaded.")
    client = Client("", "", loading)
    async with supervise(SERVES, tmp_path, lambda *_: client) as engine:
        await until(lambda: engine.state.phase == "loading")
        with pytest.raises(EngineError, match="The model is being loaded") as error:
            [event async for event in engine.generate(REQUEST)]
        assert (error.value.failure.status, error.value.failure.code) == (503, "engine_unavailable")
        client.trouble = None
        assert (await settled(engine)).phase == "ready"


async def test_a_killed_child_comes_back(tmp_path: Path) -> None:
    async with supervise(SERVES, tmp_path) as engine:
        first = (await settled(engine)).pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: engine.state.phase == "ready" and engine.state.pid != first)
        assert engine.state.restarts == 1


async def test_a_child_that_says_its_engine_broke_is_replaced(tmp_path: Path) -> None:
    broken = EngineError(500, "engine_failed", "The engine loop broke.")
    clients = iter([Client("", "", broken)])
    async with supervise(SERVES, tmp_path, lambda *a: next(clients, Client(*a))) as engine:
        await until(lambda: engine.state.phase == "ready")
        assert engine.state.restarts == 1


async def test_five_crashes_in_a_minute_end_it_and_say_why(tmp_path: Path) -> None:
    async with supervise(CRASHES, tmp_path) as engine:
        state = await settled(engine)
        assert (state.phase, state.restarts, state.pid) == ("failed", 4, None)
        assert "died 5 times in 60 s" in state.detail
        assert "exit code 1" in state.detail
        assert "no such model folder" in state.cause
        assert str(tmp_path / "engine.log") in state.cause
        with pytest.raises(EngineError) as told:
            await engine.ready()
        for said in (state.detail, str(told.value)):  # any client hears these
            assert "model folder" not in said
            assert str(tmp_path) not in said


async def test_old_crashes_are_forgotten(tmp_path: Path) -> None:
    forgetful = RestartPolicy(crashes=3, window=0.0, first_delay=0.01, poll=0.01)
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    async with Supervisor(command, "s", tmp_path / "engine.log", Client, forgetful) as engine:
        await until(lambda: engine.state.restarts > 4)


async def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with Supervisor(["/nowhere/python"], "s", tmp_path / "engine.log", Client, QUICK) as engine:
        state = await settled(engine)
        assert "/nowhere/python" in state.cause
        assert "/nowhere" not in state.detail


async def test_a_child_that_ignores_the_request_is_killed_with_all_it_started(tmp_path: Path) -> None:
    ports: list[int] = []

    def connect(base_url: str, secret: str) -> Client:
        ports.append(int(base_url.rpartition(":")[2]))
        return Client(base_url, secret)

    async with supervise(STUBBORN, tmp_path, connect) as engine:
        pid = (await settled(engine)).pid
        assert pid is not None
        assert [exists(pid), exists(ports[0])] == [True, True]
        began = time.monotonic()
    assert time.monotonic() - began < 5
    await until(lambda: not exists(pid) and not exists(ports[0]))


async def test_an_error_in_the_block_takes_the_child_along(tmp_path: Path) -> None:
    pid = None
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with supervise(SERVES, tmp_path) as engine:
            pid = (await settled(engine)).pid
            raise ZeroDivisionError
    assert pid is not None
    assert not exists(pid)


async def test_a_log_that_grew_too_long_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text("old lines, many of them")
    policy = RestartPolicy(poll=0.01, log_bytes=10)
    async with Supervisor([sys.executable, "-c", SERVES], "s", tmp_path / "engine.log", Client, policy) as engine:
        await settled(engine)
    assert (tmp_path / "engine.log.1").read_text() == "old lines, many of them"


def test_the_pause_grows_to_its_limit() -> None:
    assert [RestartPolicy().delay(n) for n in (1, 2, 3, 9)] == [0.2, 0.4, 0.8, 5.0]


async def test_a_model_that_the_engine_refuses_is_not_loaded_again(tmp_path: Path) -> None:
    refused = EngineError(500, "model_refused", "The engine failed: it brings its own Python code.")
    async with supervise(SERVES, tmp_path, lambda *a: Client(*a, trouble=refused)) as engine:
        state = await settled(engine)
        assert (state.phase, state.restarts, state.pid) == ("failed", 0, None)
        assert "its own Python code" in state.cause
        assert state.detail == "The engine cannot load this model. An operator can see why."


async def test_arguments_that_change_are_asked_at_every_start(tmp_path: Path) -> None:
    versions = iter(range(1, 100))
    script = f"import sys; open({str(tmp_path / 'said')!r}, 'a').write(sys.argv[1] + ' '); sys.exit(1)"
    command = [sys.executable, "-c", script]
    log = tmp_path / "engine.log"
    async with Supervisor(command, "s", log, Client, QUICK, more=lambda: [str(next(versions))]) as engine:
        await settled(engine)
    assert (tmp_path / "said").read_text() == "1 2 3 4 5 "

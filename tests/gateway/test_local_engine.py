"""Engines of this machine on their way: the model is looked for, fetched, refused; then a process is kept alive."""

import asyncio
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.deployments.host import EngineHost
from gateway.deployments.local_engine import Engines, LocalEngine, log_of, worker_command
from gateway.deployments.model_source import OnProgress, SourceRefused, fetch, find
from gateway.remote_engine import RemoteEngine
from gateway.supervisor import RestartPolicy, Supervisor
from inference.protocol import EngineError, GenerationRequest
from inference.speculation_config import SpeculationConfig
from storage.deployments import FIRST
from storage.values.deployments import Deployment, DeploymentSpec
from tests.gateway.fleet_of_fakes import until
from tests.gateway.running import settings_for
from tests.gateway.test_supervisor import SERVES, Client, exists

pytestmark = pytest.mark.anyio
SPEC = DeploymentSpec(name="my model", model="/models/tiny")
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def says(*lines: object) -> list[str]:
    """A catalogue that says this, whatever it is asked."""
    return [sys.executable, "-c", f"print({chr(10).join(json.dumps(line) for line in lines)!r})"]


def deployment(id: str = "dep_x", **spec: object) -> Deployment:
    return Deployment(id, replace(SPEC, **spec), 1, 1, NOW, NOW)  # type: ignore[arg-type]


async def test_a_model_is_fetched_and_how_far_that_is_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    command = says(
        {"stage": "Fetching", "fraction": 0.5}, {"stage": "Converting", "fraction": None}, {"folder": "/m/x"}
    )
    assert await fetch("x", tmp_path, told.append, command) == Path("/m/x")
    assert told == ["Fetching (50%)", "Converting"]


@pytest.mark.parametrize(
    ("command", "why"),
    [(says({"error": "No model 'x'."}), "No model 'x'"), ([sys.executable, "-c", ""], "could not be prepared")],
    ids=["refused", "died"],
)
async def test_what_is_not_to_be_had_says_why(tmp_path: Path, command: list[str], why: str) -> None:
    with pytest.raises(SourceRefused, match=why):
        await fetch("x", tmp_path, lambda stage: None, command)


async def test_the_real_catalogue_knows_folders_names_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert await find(str(tmp_path), tmp_path) == tmp_path
    assert await find("smollm2-135m", tmp_path) is None
    for unknown in ("gpt-7", "--state-dir=/"):
        with pytest.raises(SourceRefused, match="give one of smollm2-135m, or a folder"):
            await find(unknown, tmp_path)


async def test_a_fetch_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    task = asyncio.create_task(fetch("x", tmp_path, lambda stage: None, [sys.executable, "-c", script]))
    await until(lambda: mark.exists() and mark.read_text(), seconds=20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not exists(int(mark.read_text()))


def local(tmp_path: Path, prepare: object) -> LocalEngine:
    def supervise(folder: Path) -> Supervisor:
        command = [sys.executable, "-c", SERVES]
        return Supervisor(command, "s", tmp_path / "log", Client, RestartPolicy(poll=0.01, grace=0.5))

    return LocalEngine(prepare, supervise)  # type: ignore[arg-type]


async def test_an_engine_says_what_it_waits_for_until_it_is_there(tmp_path: Path) -> None:
    fetched = asyncio.Event()

    async def prepare(tell: OnProgress) -> Path:
        tell("Fetching (5%)")
        await fetched.wait()
        return tmp_path

    async with local(tmp_path, prepare) as engine:
        await until(lambda: engine.state.detail == "Fetching (5%).")
        assert engine.state.phase == "starting"
        await engine.abort("r")
        for call in (engine.ready, engine.load, lambda: engine.set_speculation(SpeculationConfig())):
            with pytest.raises(EngineError, match=r"Fetching \(5%\)"):
                await call()
        fetched.set()
        await until(lambda: engine.state.phase == "ready", seconds=20)
        assert (await engine.ready()).model == "tiny"
        assert [event.type async for event in engine.generate(GenerationRequest(request_id="r", prompt="x"))]
        pid = engine.state.pid
    assert pid is not None
    assert not exists(pid)


async def test_a_model_that_is_not_to_be_had_is_a_failed_engine(tmp_path: Path) -> None:
    async def prepare(tell: OnProgress) -> Path:
        raise SourceRefused("No model 'x'.")

    async with local(tmp_path, prepare) as engine:
        await until(lambda: engine.state.phase == "failed")
        assert engine.state.cause == "No model 'x'."


def started(tmp_path: Path, asked: Deployment, **settings: object) -> EngineHost:
    engines = Engines(settings_for(tmp_path, **settings))
    return engines(asked, 0, SpeculationConfig)  # type: ignore[return-value]


def test_an_engine_elsewhere_is_asked_and_one_here_is_started(tmp_path: Path) -> None:
    secret, elsewhere = {"worker_secret": "s" * 32}, {"engine_url": "http://10.0.0.1:1"}
    assert isinstance(started(tmp_path, deployment(**elsewhere), **secret), RemoteEngine)
    assert isinstance(started(tmp_path, deployment(FIRST), **secret, **elsewhere), RemoteEngine)
    assert isinstance(started(tmp_path, deployment(), **secret, **elsewhere), LocalEngine)
    assert isinstance(started(tmp_path, deployment(FIRST)), LocalEngine)


def test_the_command_says_what_was_asked_for_and_no_more() -> None:
    plain = worker_command(deployment(), Path("/m"))
    assert plain[1:3] == ["-m", "inference"]
    assert plain[3:] == [
        *("--child", "--host", "127.0.0.1", "--port", "0", "--model-folder", "/m", "--model-name", "my model"),
        *("--device", "auto", "--max-sequences", "32"),
    ]
    sized = deployment(dtype="bfloat16", max_model_len=256, cache_gib=0.5, revision="abcd", max_sequences=4)
    assert worker_command(sized, Path("/m"))[-10:] == [
        *("--max-sequences", "4", "--dtype", "bfloat16", "--max-model-len", "256"),
        *("--cache-gib", "0.5", "--revision", "abcd"),
    ]


def test_each_engine_has_its_own_log(tmp_path: Path) -> None:
    logs = [log_of(id, index, tmp_path).name for id, index in ((FIRST, 0), (FIRST, 1), ("dep_x", 0))]
    assert logs == ["engine.log", "engine-dep_default-1.log", "engine-dep_x-0.log"]

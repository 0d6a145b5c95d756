"""`specgate serve --workers 2`: two gateways behind one socket, over PostgreSQL and one engine that both ask."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from storage.schema import upgrade
from tests.benchmarks import targets
from tests.integration.fleet import rows
from tests.integration.served import SPECGATE, Served, children_of, command_line, is_alive, served, specgate, wait_for
from tests.storage.postgres import server

pytestmark = pytest.mark.timeout(180)
HELLO = {"model": "fake", "messages": [{"role": "user", "content": "Say hello."}]}


@pytest.fixture(scope="module")
def engine() -> Iterator[targets.Target]:
    with targets.engine() as running:
        yield running


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server() as postgres:
        url = postgres.create("specgate")
        upgrade(url)
        yield url


@pytest.fixture
def running(tmp_path: Path, engine: targets.Target, database: str) -> Iterator[Served]:
    shared = {"DATABASE_URL": database, "SPECGATE_SECRET": "s" * 40, "SPECGATE_MODEL": "fake"}
    at = {"SPECGATE_ENGINE_URL": engine.url, "SPECGATE_WORKER_SECRET": "w"}
    with served(tmp_path, command=[*SPECGATE, "serve", "--workers", "2"], **shared, **at) as started:
        wait_for(lambda: len(workers(started)) == 2, 30)
        wait_for(lambda: httpx.get(f"{started.url}/readyz").status_code == 200, 60)
        yield started


def workers(parent: Served) -> list[int]:
    return [pid for pid in children_of(parent.process.pid) if "--listeners" in command_line(pid)]


def ask(parent: Served) -> int:
    """On a connection of its own, so that either may take it."""
    with parent.client() as client:
        return client.post("/v1/chat/completions", json=HELLO).status_code


def test_both_answer_on_the_one_port_and_end_together(running: Served, database: str) -> None:
    def owners() -> int:
        assert ask(running) == 200
        return len(rows(database, "SELECT DISTINCT owner FROM ledger_entries")) == 2

    wait_for(owners, 30, "both have answered")
    assert running.output.count(running.credentials["inference_key"]) == 1
    both = workers(running)
    assert running.end(signal.SIGTERM) == 0
    assert not any(map(is_alive, both))
    opened = (
        "SELECT count(*) FILTER (WHERE kind = 'open') = count(*) FILTER (WHERE kind = 'settle') FROM ledger_entries"
    )
    assert rows(database, opened) == [(True,)]


def test_one_that_dies_costs_its_own_answers_and_comes_back(running: Served) -> None:
    first, second = workers(running)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not is_alive(first), 5)
    assert {ask(running) for _ in range(5)} == {200}
    wait_for(lambda: len(workers(running)) == 2, 30)
    assert second in workers(running)
    assert "Worker 0 ended with exit code -9 and is started again." in running.output


def counted(parent: Served) -> float:
    """Requests, as whichever process takes the scrape has it."""
    with parent.client("operator_key") as client:
        found = parse(client.get("/metrics").text)
    return sum(one.value for family in found for one in family.samples if one.name == "specgate_requests_total")


def test_no_counter_falls_whoever_is_scraped_and_whoever_dies(running: Served, database: str) -> None:
    files = [running.home / "metrics" / f"counter_{index}.db" for index in range(2)]
    seen = [0.0]

    def grew(asked: int) -> bool:
        seen.append(counted(running))
        assert seen == sorted(seen)
        return seen[-1] == asked

    def all_counted(asked: int) -> None:
        for _ in range(4):  # by either
            wait_for(lambda: grew(asked), 5, "everything is counted")

    asked = 0
    while asked < 6 or not all(file.exists() for file in files):
        assert ask(running) == 200
        asked += 1
        assert asked < 200, "each counts in the file of its place"
    all_counted(asked)
    victim = workers(running)[0]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not is_alive(victim), 5)
    all_counted(asked)
    wait_for(lambda: len(workers(running)) == 2, 30)
    assert {ask(running) for _ in range(3)} == {200}
    all_counted(asked + 3)
    assert sorted(running.home.glob("metrics/counter_*")) == files


def test_they_end_with_their_parent_however_it_ends(running: Served) -> None:
    both = workers(running)
    running.process.kill()
    wait_for(lambda: not any(map(is_alive, both)), 15)


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({}, "--workers needs PostgreSQL"),
        (
            {"DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1:9/none"},
            "--workers needs an engine that runs elsewhere",
        ),
    ],
)
def test_what_it_needs_is_told(tmp_path: Path, env: dict[str, str], reason: str) -> None:
    (tmp_path / "specgate.toml").write_text("")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    done = specgate(tmp_path / "home", "serve", "--workers", "2", SPECGATE_MODEL=str(model), **env)
    assert done.returncode == 2
    assert reason in done.stderr

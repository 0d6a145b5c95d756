"""How a server ends: by SIGTERM, by kill -9, and how the next start finds its home."""

import json
import os
import signal
import threading
import time

import httpx
import pytest

from tests.integration.conftest import MakeHome
from tests.integration.served import Served, is_alive, served, specgate, wait_for

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]

BODY = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "Count from one to fifty."}],
    "max_completion_tokens": 60,
    "temperature": 0,
    "stream": True,
}


def test_a_start_that_is_interrupted_says_no_more_of_engines(make_home: MakeHome) -> None:
    with served(make_home()) as server:
        wait_for(lambda: "The engine" in server.output, 30, server.output)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
        wait_for(lambda: "Stopped: every open request" in server.output, 5, server.output)
        assert "Its engines are being started" not in server.output
        assert "NOT READY" not in server.output


def test_sigterm_finishes_what_is_open_and_kill_9_takes_the_engine_along(make_home: MakeHome) -> None:
    home = make_home()
    with served(home) as first:
        first.wait_ready()
        engine = first.engine_pid
        assert engine is not None
        lines: list[str] = []
        with first.client() as client, client.stream("POST", "/v1/chat/completions", json=BODY) as response:
            for line in response.iter_lines():
                lines += [line] if line else []
                if line and len(lines) == 3:
                    os.kill(first.process.pid, signal.SIGTERM)
        assert lines[-1] == "data: [DONE]"
        finish = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in lines[:-1] if line.startswith("data")]
        assert finish[-1] in ("stop", "length")
        assert first.process.wait(20) == 0
        wait_for(lambda: "Stopped: every open request" in first.output, 5, first.output)
        assert not is_alive(engine)

    with served(home) as second:
        second.wait_ready()
        assert second.ready_after is not None
        assert second.ready_after < 30
        assert not [key for key in second.credentials.values() if key.startswith("sk-sg-") and key in second.output]
        engine = second.engine_pid
        assert engine is not None
        started = threading.Event()
        reader = threading.Thread(target=read_until_cut, args=(second, started))
        reader.start()
        assert started.wait(30)
        second.process.kill()
        killed = time.monotonic()
        wait_for(lambda: not is_alive(engine), 2, f"engine {engine} outlived its gateway")
        assert time.monotonic() - killed < 2
        reader.join(20)
        second.process.wait(5)

    with served(home, SPECGATE_MODEL="/nowhere") as third:
        assert third.process.wait(30) == 1
        assert "No model '/nowhere'" in third.output
    assert specgate(home, "ledger", "verify").returncode == 0


def read_until_cut(server: Served, started: threading.Event) -> None:
    """A stream whose server is killed."""
    try:
        with server.client() as client, client.stream("POST", "/v1/chat/completions", json=BODY) as response:
            for _ in response.iter_lines():
                started.set()
    except httpx.TransportError:
        return

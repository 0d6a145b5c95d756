"""`specgate serve` on the real model: what a new user sees, and what an accident leaves."""

import json
import os
import re
import signal
import socket
import stat
import subprocess

import httpx
import pytest

from tests.integration.served import Served, is_alive, specgate, wait_for

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]

FILE = "".join(f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(12))
EDIT = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": f"Repeat this file.\n\n```python\n{FILE}```"}],
    "temperature": 0,
    "max_completion_tokens": 200,
    "stream": True,
}


def test_it_is_ready_within_30_s_and_says_meanwhile_what_it_waits_for(server: Served) -> None:
    assert server.ready_after is not None
    assert server.ready_after < 30
    assert "The engine waits for the model smollm2-135m." in server.waited_for
    assert httpx.get(f"{server.url}/readyz").json()["durability"] == "process"


def test_it_prints_the_keys_once_and_ends_with_a_curl_line(server: Served) -> None:
    server.wait_ready()
    kept = server.credentials
    for name in ("inference_key", "operator_key"):
        assert server.output.count(kept[name]) == 1
    assert server.output.rstrip().splitlines()[-1].startswith(f"curl {server.url}/v1/chat/completions")
    assert "durability: process" in server.output
    assert {stat.S_IMODE(path.stat().st_mode) for path in server.home.glob("*.log")} == {0o600}
    log = (server.home / "gateway.log").read_text() + (server.home / "engine.log").read_text()
    assert not [key for key in ("inference_key", "operator_key") if kept[key] in log]


def test_the_curl_line_works_when_pasted(server: Served) -> None:
    server.wait_ready()
    line = server.output.rstrip().splitlines()[-1]
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] > 0


def test_specgate_usage_reports_what_ran(server: Served) -> None:
    server.wait_ready()
    with server.client() as client:
        body = EDIT | {"stream": False, "max_completion_tokens": 60, "prediction": {"type": "content", "content": FILE}}
        usage = client.post("/v1/chat/completions", json=body).json()["usage"]
    done = specgate(server.home, "usage", "--json", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    results = [result for bucket in json.loads(done.stdout)["data"] for result in bucket["results"]]
    assert sum(result["output_tokens"] for result in results) >= usage["completion_tokens"]
    accepted = usage["completion_tokens_details"]["accepted_prediction_tokens"]
    assert sum(result["accepted_prediction_tokens"] for result in results) >= accepted
    assert sum(result["drafted_tokens"] for result in results) > 0
    shown = specgate(server.home, "usage", "--by", "model", "--base-url", server.url)
    assert "smollm2-135m" in shown.stdout


def test_a_second_start_on_one_home_names_the_process_that_holds_it(server: Served) -> None:
    server.wait_ready()
    done = specgate(server.home, "serve")
    assert done.returncode == 1
    assert f"in use by process {server.process.pid}" in done.stderr


def test_a_taken_port_says_so_and_how_to_choose_another(server: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = specgate(server.home.parent / "another-home", "serve", PORT=port)
    assert done.returncode == 1
    assert re.search(rf"127\.0\.0\.1:{port}.*Choose another with PORT=", done.stderr)


def test_the_engine_killed_mid_stream_costs_one_answer_and_comes_back(server: Served) -> None:
    server.wait_ready()
    engine = server.engine_pid
    assert engine is not None
    pieces, error = [], None
    with server.client() as client, client.stream("POST", "/v1/chat/completions", json=EDIT) as response:
        request_id = response.headers["x-request-id"]
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            assert line != "data: [DONE]"
            chunk = json.loads(line.removeprefix("data: "))
            error = chunk.get("error")
            pieces += [c["delta"].get("content", "") for c in chunk.get("choices", ())]
            if len(pieces) == 4 and error is None:
                os.kill(engine, signal.SIGKILL)
    assert error is not None
    assert error["code"] == "engine_lost"
    received = "".join(pieces)
    assert received
    settled = wait_for(lambda: settlement(server, request_id), 10)
    assert settled["outcome"] == "engine_lost"
    assert 0 < settled["delivered_tokens"] == settled["completion_tokens"] < 200
    wait_for(lambda: server.engine_pid not in (None, engine), 20)
    server.wait_ready()
    assert not is_alive(engine)
    with server.client() as client:
        billed = {"stream": False, "max_completion_tokens": settled["delivered_tokens"]}
        answer = client.post("/v1/chat/completions", json=EDIT | billed).json()
    assert answer["choices"][0]["message"]["content"] == received, "the tokens billed are those that came"
    assert answer["usage"]["completion_tokens"] == settled["delivered_tokens"]
    assert specgate(server.home, "ledger", "verify").returncode == 0


def settlement(server: Served, request_id: str) -> dict[str, int | str] | None:
    """Of the ledger, as it lies on the disk."""
    import sqlite3

    with sqlite3.connect(f"file:{server.home / 'specgate.db'}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        query = "SELECT * FROM ledger_entries WHERE request_id = ? AND kind = 'settle'"
        rows = db.execute(query, (request_id,)).fetchall()
    db.close()
    assert len(rows) <= 1
    return dict(rows[0]) if rows else None

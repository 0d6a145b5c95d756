"""`specgate demo-traffic`: what it asks, what it leaves behind, and what it puts back."""

import contextlib
import importlib
import io
import json
from collections import Counter
from itertools import count
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gateway.cli import app
from gateway.cli.admin import Admin, Object, admin
from gateway.cli.demo_traffic_cases import EDITOR, LEFT, SUPPORT, TOKENS, traffic
from gateway.cli.demo_traffic_scene import BEGUN, FREE, HELD_OUT, OVER, PRICED, PRICES, TENANT, held_out, priced
from gateway.openai.parse import parse
from gateway.openai.schema import ChatRequest
from tests.gateway.test_apply import call, server, told

__all__ = ["server"]
NAME = "smollm2-135m"


def test_the_same_requests_for_the_same_seed_and_each_as_the_api_takes_it() -> None:
    asked = list(traffic(NAME, 200))
    assert asked == list(traffic(NAME, 200))
    assert asked != list(traffic(NAME, 200, seed=2))
    for one in asked:
        parse(json.dumps(one.body).encode(), ChatRequest)
    kinds = Counter((one.project, one.body["metadata"]["workload"]) for one in asked)
    assert kinds.keys() == {(EDITOR, "code-edits"), (EDITOR, "extraction"), (SUPPORT, "support-chat")}
    assert min(kinds.values()) > 30
    assert all(("prediction" in one.body) == (one.body["metadata"]["workload"] == "code-edits") for one in asked)
    assert {one.body["max_completion_tokens"] for one in asked} == {TOKENS}
    assert sum(one.leaves for one in asked) == 200 // LEFT - 1


def test_a_tenant_is_left_with_requests_and_everything_else_as_it_was(server: str) -> None:
    before = told(server, "deployments", "show", NAME)
    done = call(server, "demo-traffic", "--requests", "45")
    assert done.exit_code == 0, done.output
    assert "42 answered" in done.output or "43 answered" in done.output
    assert "left half-way" in done.output
    assert "20% of requests run without speculation while this lasts, then 0% again." in done.output
    assert f"{server}/dashboard" in done.output
    for kind in ("code-edits", "extraction", "support-chat"):
        assert kind in done.output

    after = told(server, "deployments", "show", NAME)
    assert after["speculation"] == before["speculation"]
    assert told(server, "deployments", "versions", NAME)[0]["reason"] == OVER
    assert told(server, "prices", "show", NAME)["version"] == 2
    assert told(server, "keys", "list", "--tenant", TENANT) == []
    assert CliRunner().invoke(app, ["ledger", "verify"]).exit_code == 0
    again = call(server, "demo-traffic", "--requests", "1")
    assert (again.exit_code, "1 answered" in again.output) == (0, True)


def test_what_the_time_was_too_short_for_is_neither_asked_nor_counted_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    command = importlib.import_module("gateway.cli.demo_traffic")
    monkeypatch.setattr(command, "ask", lambda client, asked: "answered")
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=count().__next__))
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    asked = list(traffic(NAME, 40))
    found = command.ask_all("http://127.0.0.1:9", dict.fromkeys((EDITOR, SUPPORT), "none"), asked, 8.0, console)
    assert found == {"answered": 8, "not asked: the time was up": 32}
    assert isinstance(console.file, io.StringIO)
    assert "8/40" in console.file.getvalue()
    assert "40/40" not in console.file.getvalue()


def test_whatever_ends_it_what_was_before_comes_back(server: str) -> None:
    with admin(server) as api:
        before = named(api)
        with contextlib.suppress(KeyboardInterrupt), held_out(api, before), priced(api, before) as is_priced:
            assert is_priced
            assert named(api)["speculation"]["holdout_rate"] == HELD_OUT
            raise KeyboardInterrupt
        assert named(api)["speculation"] == before["speculation"]
        path = f"/admin/v1/deployments/{before['id']}/prices"
        api.put(path, PRICES | {"reason": "the operator's own"})
        with priced(api, before) as is_priced:
            assert not is_priced, "a price that is there stays"
        assert told(server, "prices", "show", NAME)["input"] == PRICES["input"]


def test_what_a_run_could_not_put_back_the_next_one_does(server: str) -> None:
    with admin(server) as api:
        before = named(api)
        path = f"/admin/v1/deployments/{before['id']}"
        api.patch(path, {"speculation": {"holdout_rate": HELD_OUT}, "reason": BEGUN})
        api.put(f"{path}/prices", PRICES | {"reason": PRICED})
        left = named(api)
        with held_out(api, left) as rate, priced(api, left) as is_priced:
            assert (rate, is_priced) == (before["speculation"]["holdout_rate"], True)
            assert named(api)["speculation"] == left["speculation"]
        assert named(api)["speculation"] == before["speculation"]
        assert not any(told(server, "prices", "show", NAME)[item] for item in FREE)


def named(api: Admin) -> Object:
    found = api.deployment(NAME)
    assert found is not None
    return found

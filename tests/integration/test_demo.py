"""`specgate demo` on the real model: the case's greedy answer is the edit, with and without its prediction."""

import json

import pytest

from gateway.cli import demo_case
from tests.integration.served import Served, specgate

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]


def test_the_answer_is_the_edit_and_the_same_without_prediction_and_without_speculation(server: Served) -> None:
    done = specgate(server.home, "demo", "--json", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["same_tokens"] is True
    runs = told["runs"]
    assert list(runs) == ["with prediction", "without prediction", "speculation off"]
    for run in runs.values():
        assert run["text"] == demo_case.fenced(demo_case.EDITED)
        assert run["usage"]["completion_tokens"] == 118
    details = {name: run["usage"]["completion_tokens_details"] for name, run in runs.items()}
    assert told["passes_saved_by_prediction"] == details["with prediction"]["accepted_prediction_tokens"] > 0
    for name in ("without prediction", "speculation off"):
        assert details[name]["accepted_prediction_tokens"] == details[name]["rejected_prediction_tokens"] == 0

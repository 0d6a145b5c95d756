"""The demo's case, its reading of a stream, and the words for what it found."""

import json
from typing import Any

import httpx
import pytest
import typer
from rich.console import Console

from gateway.cli import demo_case
from gateway.cli.demo_stream import Run, run
from gateway.cli.demo_view import OFF, WITH, WITHOUT, is_same, report, unified_diff, verdict


def usage(tokens: int, accepted: int = 0, rejected: int = 0) -> dict[str, Any]:
    details = {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": rejected}
    return {"completion_tokens": tokens, "completion_tokens_details": details}


def client(*chunks: dict[str, Any], status: int = 200) -> httpx.Client:
    lines = [": waiting", *(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]"]
    body = "\n\n".join(lines) if status == 200 else json.dumps(chunks[0])
    return httpx.Client(base_url="http://x", transport=httpx.MockTransport(lambda _: httpx.Response(status, text=body)))


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}], "usage": None}


def test_a_stream_becomes_text_and_usage() -> None:
    seen: list[str] = []
    end = {"choices": [], "usage": usage(5, 3, 1)}
    got = run(client(delta(""), delta("def "), delta("f"), end), {"model": "m"}, seen.append)
    assert (got.text, seen) == ("def f", ["def ", "def f"])
    assert (got.tokens, got.accepted, got.rejected) == (5, 3, 1)
    assert 0 <= got.first_text <= got.total


def test_an_error_in_the_stream_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        run(client(delta("def"), {"error": {"message": "The engine was lost."}}), {})
    assert "the server gave up the request: The engine was lost." in capsys.readouterr().err


def test_a_refusal_ends_the_command_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        run(client({"error": {"message": "Incorrect API key."}}, status=401), {})
    assert "/v1/chat/completions answered 401: Incorrect API key." in capsys.readouterr().err


def test_the_case_changes_three_lines_and_no_other() -> None:
    pairs = zip(demo_case.ORIGINAL.splitlines(), demo_case.EDITED.splitlines(), strict=True)
    assert [after.strip() for before, after in pairs if before != after] == [
        'return f"Hello, {name}!"',
        'return f"Goodbye, {name}!"',
        'return f"Welcome back, {name}!"',
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\n```\nThis sets x.", "x = 1\n"),
        ("Here it is:\n```python\nx = 1\n```", "Here it is:\n```python\nx = 1\n```"),
        ("```python\nx = 1", "```python\nx = 1"),
        ("x = 1", "x = 1"),
    ],
)
def test_the_code_of_an_answer(answer: str, code: str) -> None:
    assert demo_case.unfenced(answer) == code


def told(**runs: Run) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(report(console, demo_case.ORIGINAL, {WITH: runs["w"], WITHOUT: runs["o"], OFF: runs["off"]}))
    return captured.get()


def test_the_report_shows_diff_figures_and_equality() -> None:
    answer = demo_case.fenced(demo_case.EDITED)
    w, o, off = (
        Run(answer, 0.1, 1.0, usage(118, 90, 7)),
        Run(answer, 0.1, 2.0, usage(118)),
        Run(answer, 0.1, 4.0, usage(118)),
    )
    shown = told(w=w, o=o, off=off)
    assert '+    return f"Hello, {name}!"' in shown
    assert "same tokens: yes" in shown
    assert "4.0 times as fast as with speculation off, 2.0 times as fast as without it" in shown
    assert "not the quality of code" in shown
    assert [line.split()[-3:] for line in shown.splitlines() if "accepted" in line or "saved" in line] == [
        ["90", "-", "-"]
    ] * 2


def test_one_other_token_is_not_the_same() -> None:
    runs = {WITH: Run("a", 0, 1, usage(2)), WITHOUT: Run("a", 0, 1, usage(2)), OFF: Run("a", 0, 1, usage(3))}
    assert not is_same(runs)
    assert "same tokens: NO" in told(w=runs[WITH], o=runs[WITHOUT], off=runs[OFF])


def test_an_answer_that_changes_nothing_says_so() -> None:
    assert unified_diff("x\n", "x\n") == "The answer is the file as it was."


def test_a_run_that_was_a_control_is_said_to_be_one() -> None:
    control = Run("a", 0, 1, usage(2), is_control=True)
    runs = {WITH: Run("a", 0, 1, usage(2)), WITHOUT: control, OFF: Run("a", 0, 1, usage(2))}
    assert "'without prediction': it ran with speculation off." in verdict(runs)
    assert "holdout" not in verdict({**runs, WITHOUT: Run("a", 0, 1, usage(2))})

"""`specgate demo`: a real code edit with its prediction beside the same request without it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console

from gateway.cli import demo_case
from gateway.cli.console import load_settings, stop
from gateway.cli.demo_stream import Run, run
from gateway.cli.demo_view import OFF, WITH, WITHOUT, Columns, columns, is_same, report, unified_diff
from gateway.cli.remote import BaseUrl, address, connect, credentials, require_ok


def demo(
    file: Annotated[Path | None, typer.Option(help="Edit this file instead of the built-in one.")] = None,
    instruction: Annotated[str, typer.Option(help="What to change in it.")] = demo_case.INSTRUCTION,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    base_url: BaseUrl = None,
) -> None:
    """Stream an edit with `prediction` beside the same request without it, and compare token for token."""
    settings = load_settings()
    text = _read(file) if file else demo_case.ORIGINAL
    console = Console(quiet=as_json, highlight=False, soft_wrap=not Console().is_terminal)
    with connect(address(settings, base_url), credentials(settings).inference_key) as client:
        body = demo_case.request(_model(client), text, instruction)
        console.print(f"{instruction}  ({len(text.splitlines())} lines, {body['model']}, temperature 0)")
        with columns(console, len(text.splitlines()) + 3) as view:
            runs = _runs(client, body, text, view)
    if as_json:
        typer.echo(json.dumps(_as_json(text, runs), indent=2))
    else:
        console.print(report(console, text, runs))
    raise typer.Exit(0 if is_same(runs) else 1)


def _runs(client: httpx.Client, body: Mapping[str, Any], text: str, view: Columns) -> dict[str, Run]:
    """One after the other, so that neither slows the other; the prompt is computed once before, for all of them."""
    run(client, {**body, "max_completion_tokens": 1})
    bodies = {
        WITH: {**body, "prediction": {"type": "content", "content": text}},
        WITHOUT: body,
        OFF: {**body, "speculation": "off"},
    }
    runs: dict[str, Run] = {}
    for name, asked in bodies.items():
        if name == OFF:
            runs[name] = run(client, asked)
            continue
        runs[name] = run(client, asked, lambda so_far, name=name: view.show(name, so_far))  # type: ignore[misc]
        view.show(name, runs[name].text, f"{runs[name].tokens} tokens in {runs[name].total:.2f} s")
    return runs


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        stop(f"{file} cannot be edited: {error}")


def _model(client: httpx.Client) -> str:
    response = client.get("/v1/models")
    require_ok(response)
    return str(response.json()["data"][0]["id"])


def _as_json(text: str, runs: Mapping[str, Run]) -> dict[str, Any]:
    told = {
        name: {
            "text": r.text,
            "first_text_seconds": r.first_text,
            "seconds": r.total,
            "usage": r.usage,
            "is_control": r.is_control,
        }
        for name, r in runs.items()
    }
    answer = demo_case.unfenced(runs[WITH].text)
    return {
        "same_tokens": is_same(runs),
        "passes_saved_by_prediction": runs[WITH].accepted,
        "diff": unified_diff(text, answer),
        "runs": told,
    }

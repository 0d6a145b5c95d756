"""What `specgate serve` tells: where it listens, what it waits for, and, once it is ready, how to ask it."""

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from gateway.bootstrap import Credentials
from gateway.parts import HasState
from gateway.serve import Started
from storage.deployments import FIRST

POLL_SECONDS = 0.1
KEYS = {"inference_key": "inference key", "operator_key": "operator key "}


async def tell(started: Started, engine: HasState, model: str, home: Path, say: Callable[[str], None]) -> None:
    """Returns when the engine is ready or given up. New keys are told whatever happens to the engine."""
    if started.recovered:
        say(f"Settled {started.recovered} requests that an earlier run left open.")
    for line in remark_lines(started, home):
        say(line)
    say(f"Listening on {started.url} (durability: {started.durability}). {started.url}/readyz says what it waits for.")
    if started.admin_url not in (None, started.url):
        say(f"Admin routes are on {started.admin_url}.")
    try:
        detail = await _settled(engine, say)
    finally:
        for line in key_lines(started.credentials, home):
            say(line)
    if engine.state.phase == "ready":
        say(closing(started, model, home))
    elif engine.state.phase != "stopped":
        say(" ".join(filter(None, ("NOT READY.", detail, engine.state.cause))))


async def _settled(engine: HasState, say: Callable[[str], None]) -> str:
    """The cause of a first failure is told at once; those of the next ones are the same as a rule."""
    told = cause = ""
    while (state := engine.state).phase not in ("ready", "failed", "stopped"):
        if state.detail != told:
            told = state.detail
            say(told if cause else f"{told} {state.cause}".rstrip())
            cause = cause or state.cause
        await asyncio.sleep(POLL_SECONDS)
    return state.detail


def remark_lines(started: Started, home: Path) -> list[str]:
    """What became of the settings, and how to change what was left as it is."""
    lines = []
    for remark in started.remarks:
        lines.append(remark.text)
        if remark.patch:
            lines.append(patch_line(started.admin_url, remark.patch, home))
    return lines


def patch_line(url: str | None, patch: Mapping[str, JsonValue], home: Path) -> str:
    if url is None:
        return "The admin routes are not served here; set SPECGATE_ADMIN_BIND and start again."
    body = json.dumps({**patch, "reason": "As the settings say."})
    headers = f"""{_headers("operator_key", home)} -H "if-match: *\""""
    return f"curl -X PATCH {url}/admin/v1/deployments/{FIRST} {headers} -d {shlex.quote(body)}"


def key_lines(credentials: Credentials, home: Path) -> list[str]:
    """Keys that this start made: shown once."""
    lines = [f"  {label}  {getattr(credentials, name)}" for name, label in KEYS.items() if name in credentials.new]
    where = f"New keys, shown once and kept in {home.absolute() / 'credentials.json'}:"
    return [where, *lines] if lines else []


def closing(started: Started, model: str, home: Path) -> str:
    dashboard = f"Dashboard, for any key: {started.admin_url}/dashboard\n" if started.admin_url else ""
    return (
        f"\nReady: {model} at {started.url}/v1 (durability: {started.durability}). Ctrl-C drains and stops.\n"
        f"{dashboard}Try it, in another terminal:\n\n{curl_line(started.url, model, home)}\n"
    )


def curl_line(url: str, model: str, home: Path) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 32})
    return f"curl {url}/v1/chat/completions {_headers('inference_key', home)} -d {shlex.quote(body)}"


def _headers(key: str, home: Path) -> str:
    """Pasteable: the key is read from where it is kept, so that no terminal's history holds it."""
    path = shlex.quote(str(home.absolute() / "credentials.json"))
    read_key = f"""$(sed -n 's/.*"{key}": "\\(.*\\)".*/\\1/p' {path})"""
    return f"""-H "authorization: Bearer {read_key}" -H "content-type: application/json\""""

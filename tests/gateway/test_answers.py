"""An answer whose own task is cancelled, at every await from then on, is settled before the task ends."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.app import build_app
from gateway.openai.sse import json_bytes
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, Gateway, chat_body, running

pytestmark = pytest.mark.anyio


async def call(gateway: Gateway, **members: Any) -> None:
    """The application itself, on a connection that stays open."""
    body = json_bytes(chat_body(**members))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "POST",
        "path": CHAT,
        "raw_path": CHAT.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {gateway.key}".encode())],
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        await asyncio.sleep(0)

    await build_app(gateway.parts)(scope, receive, send)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_cancelled_task_is_settled_when_it_ends(tmp_path: Path, streams: bool) -> None:
    engine = FakeEngine(Script(words=tuple("abcdefgh"), hold_at=3))
    async with running(tmp_path, engine) as gateway:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(gateway, stream=streams))
            while engine.sent < 3:
                await asyncio.sleep(0.005)
            group.cancel_scope.cancel()
        (row,) = await gateway.rows("settle")
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 3, 3)
        assert row.final

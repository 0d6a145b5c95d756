"""An engine that costs next to nothing, as a process of its own: `python -m tests.benchmarks.fake_worker`.

It speaks the worker's protocol to the gateway and OpenAI's to whoever asks it directly, with the same tokens at the
same pace: `seed` says how many chunks a stream has; below 0 the engine fails. The text of a chunk is the moment at
which it was sent, in nanoseconds of the machine's monotonic clock.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from pydantic import BaseModel

from inference.protocol import (
    Accepted,
    Failure,
    FinishReason,
    SpeculationStats,
    TokenEvent,
    TokenUsage,
    WorkerLoad,
    WorkerReady,
)

PACE_SECONDS = 0.002
TOKENS = 16
CREATED = 1_800_000_000


SPECULATION = {"version": 0, "origin": ""}
"""As the gateway set it last."""
ABORTED: set[str] = set()
"""Requests that are to end."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    match scope["path"]:
        case "/speculation":
            SPECULATION.update(json.loads(await _body(receive)))
            await _answer(send, b"{}")
        case "/generate":
            await _generate(json.loads(await _body(receive)), send)
        case "/v1/chat/completions":
            await _chat(json.loads(await _body(receive)), send)
        case "/readyz":
            ready = WorkerReady(model="fake", max_model_len=8192, vocab_size=100, fingerprint="fake")
            await _answer(send, ready.model_dump_json().encode())
        case "/load":
            await _answer(send, _load().model_dump_json().encode())
        case path if path.startswith("/requests/"):
            ABORTED.add(path.removeprefix("/requests/"))
            await _answer(send, b"", 204)
        case _:
            await _answer(send, b"{}")


def _load() -> WorkerLoad:
    runs = {"config_version": SPECULATION["version"], "config_origin": SPECULATION["origin"]}
    return WorkerLoad.model_validate(
        {"waiting": 0, "running": 0, "free_blocks": 9, "num_blocks": 9, "passes": 0} | runs
    )


async def _generate(asked: dict[str, Any], send: Any) -> None:
    await _start(send, b"application/x-ndjson")
    seed = asked["sampling"].get("seed") or 0
    if seed == 0:
        await send({"type": "http.response.body", "body": ACCEPTED + WHOLE})
        return
    await _more(send, ACCEPTED)
    if seed < 0:
        await _more(send, FAILED)
    async for number in _paced(seed):
        if asked["request_id"] in ABORTED:
            ABORTED.remove(asked["request_id"])
            await _more(send, _end("abort", number))
            break
        if number == seed - 1:
            await _more(send, _end("stop", seed, seq_no=number, text=str(time.monotonic_ns()), token_ids=(number,)))
        else:
            await _more(send, CHUNK % (number, number, time.monotonic_ns()))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chat(asked: dict[str, Any], send: Any) -> None:
    chunks = asked.get("seed") or 0
    if not chunks:
        await _answer(send, CHAT)
        return
    await _start(send, b"text/event-stream; charset=utf-8")
    async for number in _paced(chunks):
        await _more(send, (CHAT_CHUNK if number < chunks - 1 else CHAT_END) % time.monotonic_ns())
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


def _line(value: BaseModel) -> bytes:
    return value.model_dump_json(exclude_none=True).encode() + b"\n"


def _end(reason: FinishReason, tokens: int, **members: Any) -> bytes:
    passes = SpeculationStats(steps=max(0, tokens - 1))
    usage = TokenUsage(prompt_tokens=9, cached_tokens=0, completion_tokens=tokens, speculation=passes)
    event = {"seq_no": tokens, "token_ids": (), "text": ""} | members
    return _line(TokenEvent(**event, finish_reason=reason, usage=usage))


def _object(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    told = {"id": "chatcmpl-fake", "object": kind, "created": CREATED, "model": "fake"}
    return told | {"choices": [{"index": 0} | choice]}


def _frame(text: str, reason: str | None = None) -> bytes:
    told = _object("chat.completion.chunk", {"delta": {"content": text}, "finish_reason": reason})
    return f"data: {json.dumps(told, separators=(',', ':'))}\n\n".encode()


# What is the same each time is spelt before it is asked for: one shape of answer must not cost more than the other.
ACCEPTED = _line(Accepted(prompt_tokens=9))
FAILED = _line(Failure(status=500, code="engine_error", message="The engine failed."))
WHOLE = _end("stop", TOKENS, text="x" * TOKENS, token_ids=tuple(range(TOKENS)))
CHUNK = b'{"type":"tokens","choice":0,"seq_no":%d,"token_ids":[%d],"text":"%d"}\n'
MESSAGE = {"message": {"role": "assistant", "content": "x" * TOKENS}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
CHAT = json.dumps(_object("chat.completion", MESSAGE) | {"usage": USAGE}).encode()
CHAT_CHUNK, CHAT_END = _frame("%d"), _frame("%d", "stop")


async def _paced(chunks: int) -> AsyncIterator[int]:
    for number in range(chunks):
        await asyncio.sleep(PACE_SECONDS)
        yield number


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _answer(send: Any, body: bytes, status: int = 200) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _start(send: Any, kind: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})


async def _more(send: Any, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())

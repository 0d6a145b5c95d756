"""An engine that costs next to nothing, as a process of its own: `python -m tests.benchmarks.fake_worker`.

It speaks the worker's protocol to the gateway and OpenAI's to whoever asks it directly, with the same tokens at the
same pace: `user` (OpenAI) and `seed` (worker) say how many chunks a stream has. The text of a chunk is the moment at
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

from inference.protocol import (
    Accepted,
    GenerationRequest,
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


async def app(scope: Any, receive: Any, send: Any) -> None:
    match scope["path"]:
        case "/speculation":
            SPECULATION.update(json.loads(await _body(receive)))
            await _answer(send, b"{}")
        case "/generate":
            await _generate(GenerationRequest.model_validate_json(await _body(receive)), send)
        case "/v1/chat/completions":
            await _chat(json.loads(await _body(receive)), send)
        case "/readyz":
            ready = WorkerReady(model="fake", max_model_len=8192, vocab_size=100, fingerprint="fake")
            await _answer(send, ready.model_dump_json().encode())
        case "/load":
            await _answer(send, _load().model_dump_json().encode())
        case _:
            await _answer(send, b"{}")


def _load() -> WorkerLoad:
    runs = {"config_version": SPECULATION["version"], "config_origin": SPECULATION["origin"]}
    return WorkerLoad.model_validate(
        {"waiting": 0, "running": 0, "free_blocks": 9, "num_blocks": 9, "passes": 0} | runs
    )


async def _generate(request: GenerationRequest, send: Any) -> None:
    await _start(send, b"application/x-ndjson")
    await _more(send, Accepted(prompt_tokens=9).model_dump_json().encode() + b"\n")
    chunks = request.sampling.seed or 0
    tokens = chunks or TOKENS
    passes = SpeculationStats(steps=tokens - 1)
    usage = TokenUsage(prompt_tokens=9, cached_tokens=0, completion_tokens=tokens, speculation=passes)
    if not chunks:
        event = TokenEvent(
            seq_no=0, token_ids=tuple(range(TOKENS)), text="x" * TOKENS, finish_reason="stop", usage=usage
        )
        await _more(send, event.model_dump_json(exclude_none=True).encode() + b"\n")
    async for number in _paced(chunks):
        last = {"finish_reason": "stop", "usage": usage} if number == chunks - 1 else {}
        event = TokenEvent(seq_no=number, token_ids=(number,), text=str(time.monotonic_ns()), **last)
        await _more(send, event.model_dump_json(exclude_none=True).encode() + b"\n")
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chat(asked: dict[str, Any], send: Any) -> None:
    chunks = asked.get("seed") or 0
    if not chunks:
        choice = {"index": 0, "message": {"role": "assistant", "content": "x" * TOKENS}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
        await _answer(send, json.dumps(_object("chat.completion", [choice]) | {"usage": usage}).encode())
        return
    await _start(send, b"text/event-stream; charset=utf-8")
    async for number in _paced(chunks):
        reason = "stop" if number == chunks - 1 else None
        choice = {"index": 0, "delta": {"content": str(time.monotonic_ns())}, "finish_reason": reason}
        told = json.dumps(_object("chat.completion.chunk", [choice]), separators=(",", ":"))
        await _more(send, f"data: {told}\n\n".encode())
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


async def _paced(chunks: int) -> AsyncIterator[int]:
    for number in range(chunks):
        await asyncio.sleep(PACE_SECONDS)
        yield number


def _object(kind: str, choices: list[Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "object": kind, "created": CREATED, "model": "fake", "choices": choices}


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
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

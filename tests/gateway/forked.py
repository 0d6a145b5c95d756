"""Gateway processes for tests that kill many: forked from one that has imported everything, and so there at once.

Their engine writes down what it makes, in a file that outlives both: `made` reads it.
"""

import asyncio
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gateway.serve import Started, serve
from inference.protocol import Accepted, GenerationRequest, TokenEvent
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import settings_for

WORDS = tuple(f" {number}" for number in range(400))
MADE = "made.log"


class RecordingEngine(FakeEngine):
    """As many words as the request's seed says."""

    def __init__(self, script: Script, record: Path) -> None:
        super().__init__(script)
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def script_of(self, request: GenerationRequest) -> Script:
        return replace(self.script, words=WORDS[: request.sampling.seed])

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        async for event in super().generate(request):
            if isinstance(event, TokenEvent):
                os.write(self._record, f"{request.request_id} {len(event.token_ids)}\n".encode())
            yield event


def made(*homes: Path) -> Counter[str]:
    """Request → tokens that its engine made."""
    counted: Counter[str] = Counter()
    for line in "".join((home / MADE).read_text() for home in homes).splitlines():
        request_id, tokens = line.split()
        counted[request_id] += int(tokens)
    return counted


class Forked:
    """A gateway process, ready."""

    def __init__(self, process: Any, told: dict[str, Any]) -> None:
        self._process = process
        self.url: str = told["url"]
        self.key: str = told["key"]
        self.recovered: int = told["recovered"]

    async def kill(self) -> None:
        """-9."""
        self._process.kill()
        await asyncio.to_thread(self._process.join, 10)
        assert self._process.exitcode == -9

    async def end(self) -> None:
        """SIGTERM: all is answered and settled."""
        self._process.terminate()
        await asyncio.to_thread(self._process.join, 20)
        assert self._process.exitcode == 0


@asynccontextmanager
async def forked(home: Path, script: dict[str, Any], **settings: Any) -> AsyncIterator[Forked]:
    """Killed at the end, where it still runs."""
    process, here = _start(home, script, settings)
    try:
        told = await asyncio.to_thread(_heard, here)
        yield Forked(process, told)
    finally:
        here.close()
        process.kill()
        await asyncio.to_thread(process.join, 10)
        process.close()


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """The address of one, for tests without a loop."""
    process, here = _start(home, {}, {})
    try:
        yield str(_heard(here)["url"])
    finally:
        here.close()
        process.kill()
        process.join(10)
        process.close()


def _start(home: Path, script: dict[str, Any], settings: dict[str, Any]) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(home, script, settings, there), daemon=True)
    process.start()
    there.close()
    return process, here


def _heard(pipe: Connection) -> dict[str, Any]:
    assert pipe.poll(30), "the gateway did not start within 30 s"
    told: dict[str, Any] = json.loads(pipe.recv_bytes())
    return told


def _serve(home: Path, script: dict[str, Any], settings: dict[str, Any], pipe: Connection) -> None:
    def announce(started: Started) -> None:
        told = {"url": started.url, "key": started.credentials.inference_key, "recovered": started.recovered}
        pipe.send_bytes(json.dumps(told).encode())

    home.mkdir(mode=0o700, exist_ok=True)
    engine = RecordingEngine(Script(**script), home / MADE)
    asyncio.run(serve(settings_for(home, **settings), lambda *_: nullcontext(engine), announce))

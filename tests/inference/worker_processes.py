"""Real worker processes (`python -m inference`) over a tiny random model, for tests of how they live and die."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from inference.client import HttpInferenceClient
from inference.protocol import EngineError, WorkerReady

SECRET = "between the two"
ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"SPECGATE_WORKER_SECRET": SECRET, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
START_SECONDS = 60
"""Two cores shared with other tests may take long to import torch."""


def command(folder: Path, *options: str) -> list[str]:
    named = ["--model-folder", str(folder), "--model-name", "tiny", "--device", "cpu", "--num-blocks", "64"]
    return [sys.executable, "-m", "inference", *named, *options]


@asynccontextmanager
async def started(argv: list[str]) -> AsyncIterator[tuple[asyncio.subprocess.Process, HttpInferenceClient]]:
    """A process that has said its port. Killed at the end, if it is not dead by then."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, env=ENVIRONMENT)
    assert process.stdout
    client: HttpInferenceClient | None = None
    try:
        said = json.loads(await asyncio.wait_for(process.stdout.readline(), START_SECONDS))
        client = HttpInferenceClient(f"http://127.0.0.1:{said['port']}", SECRET)
        yield process, client
    finally:
        if client:
            await client.aclose()
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def ready(client: HttpInferenceClient) -> tuple[WorkerReady, list[str]]:
    """What it said once it was ready, and what it waited for until then. Raises what a failed worker says."""
    waited_for: list[str] = []
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                return await client.ready(), waited_for
            except EngineError as error:
                if error.failure.status != 503:
                    raise
                waited_for.append(error.failure.message)
                await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)

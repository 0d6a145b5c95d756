"""Gateway processes with engines by script, for tests that send signals or need several of them.

The ledger is proved when one has ended: a test that takes the database away brings it back first.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.running import client, settings_for
from tests.ledger_proof import prove_at

ROOT = Path(__file__).resolve().parents[2]


class Process:
    def __init__(self, process: asyncio.subprocess.Process, told: dict[str, Any]) -> None:
        self.process, self.told = process, told
        self.http = client(told["url"], told["key"])

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(10):
            return await self.process.wait()


@asynccontextmanager
async def started(home: Path, script: dict[str, Any], **settings: Any) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "tests.gateway.serve_fake", str(home), json.dumps(script), json.dumps(settings)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            gateway = Process(process, json.loads(await process.stdout.readline()))
        async with gateway.http:
            yield gateway
    finally:
        if process.returncode is None:
            process.kill()
        code = await process.wait()
    await prove_at(settings_for(home, **settings).database, is_over=code == 0 and "database_url" not in settings)

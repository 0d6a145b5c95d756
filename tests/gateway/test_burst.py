"""Many requests at once are no database that is away: with the default patience all of them run."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from gateway.settings import Settings
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import client, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hundred_at_once_all_run(tmp_path: Path, stream: bool) -> None:
    patience = Settings.model_fields["storage_seconds"].default
    async with running(tmp_path, FakeEngine(Script(gap=0.01)), storage_seconds=patience) as gateway:
        async with client(gateway.url, gateway.key) as http:
            body = {"model": "smollm2-135m", "stream": stream, "messages": [{"role": "user", "content": "Say hello."}]}
            answers = await asyncio.gather(*(http.post("/v1/chat/completions", json=body) for _ in range(100)))
        assert Counter(answer.status_code for answer in answers) == {200: 100}
        await gateway.parts.books.close(5)
        assert Counter(row.outcome for row in await gateway.rows("settle")) == {"completed": 100}

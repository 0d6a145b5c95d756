"""Going out of service: new work is refused, open answers finish or are cut with an error event, all is settled."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, chat_body, frames, running

pytestmark = pytest.mark.anyio
LONG = Script(words=tuple("abcdefgh"), hold_at=3)


async def test_open_answers_finish_and_new_ones_are_refused(tmp_path: Path) -> None:
    engine = FakeEngine(LONG)
    async with running(tmp_path, engine) as gateway:
        drain = gateway.parts.drain
        async with gateway.http.stream("POST", CHAT, json=chat_body(stream=True)) as response:
            text = response.aiter_text()
            first = await anext(text)
            draining = asyncio.create_task(drain.run(20, 1))
            while not drain.has_begun:
                await asyncio.sleep(0.005)
            refused = await gateway.chat()
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert refused.headers["retry-after"] == "5"
            assert (await gateway.http.get("/readyz")).status_code == 503
            assert (await gateway.http.get("/livez")).status_code == 200
            assert not draining.done()
            engine.release.set()
            rest = "".join([part async for part in text])
        assert frames(first + rest)[-1] == "[DONE]"
        async with asyncio.timeout(2):
            await draining
        assert (await gateway.settled()).outcome == "completed"


async def test_balancers_are_told_before_anything_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        draining = asyncio.create_task(gateway.parts.drain.run(20, 1, notice=0.5))
        await asyncio.sleep(0)
        assert (await gateway.http.get("/readyz")).status_code == 503
        assert (await gateway.chat()).status_code == 200
        async with asyncio.timeout(5):
            await draining
        assert (await gateway.chat()).json()["error"]["code"] == "draining"


@pytest.mark.parametrize("streams", [False, True])
async def test_what_is_open_at_the_deadline_is_cut_and_settled(tmp_path: Path, streams: bool) -> None:
    engine = FakeEngine(LONG)
    async with running(tmp_path, engine) as gateway:
        asking = asyncio.create_task(gateway.chat(stream=streams))
        while engine.sent < 3:
            await asyncio.sleep(0.005)
        async with asyncio.timeout(3):
            await gateway.parts.drain.run(0.1, 2)
            response = await asking
        if streams:
            assert frames(response.text)[-1]["error"]["code"] == "draining"
        else:
            assert (response.status_code, response.json()["error"]["code"]) == (503, "draining")
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 3, 3)
        assert row.final
        assert engine.aborted == [row.request_id]


async def test_a_revoked_key_cuts_its_open_streams(tmp_path: Path) -> None:
    from storage.api_keys import ApiKeys

    engine = FakeEngine(LONG)
    async with running(tmp_path, engine, revocation_seconds=0.05) as gateway:
        asking = asyncio.create_task(gateway.chat(stream=True))
        while engine.sent < 3:
            await asyncio.sleep(0.005)
        async with gateway.parts.db.unit() as session:
            await ApiKeys(session).revoke(gateway.key.split("-")[2])
        async with asyncio.timeout(3):
            response = await asking
        assert frames(response.text)[-1]["error"]["code"] == "invalid_api_key"
        assert (await gateway.settled()).completion_tokens == 3

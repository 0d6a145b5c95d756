"""A request is admitted at every level or changes nothing, and what it held is let go however it ends."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from inference.protocol import Accepted, EngineError, GenerationRequest, TokenEvent
from storage.deployments import FIRST
from storage.money import Price
from storage.prices import Prices
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.limiting import TENANT, is_released, key_id, limit, used
from tests.gateway.running import MODEL, Gateway, frames, running
from tests.gateway.test_disconnect import asking, read_until

pytestmark = pytest.mark.anyio
MANY = tuple(f" {i}" for i in range(50))


async def settled(gateway: Gateway, number: int) -> list[Any]:
    async with asyncio.timeout(10):
        while len(rows := await gateway.rows("settle")) < number:
            await asyncio.sleep(0.01)
    return rows


async def test_headers_are_on_every_answer(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await limit(gateway.parts.db, *TENANT, requests_per_minute=4, output_tokens_per_minute=100)
        whole = await gateway.chat(max_tokens=30)
        assert whole.headers["x-ratelimit-limit-requests"] == "4"
        assert whole.headers["x-ratelimit-remaining-requests"] == "3"
        assert whole.headers["x-ratelimit-limit-tokens"] == "100"
        assert whole.headers["x-ratelimit-remaining-tokens"] == "70", "the whole of what it may use is held"
        assert whole.headers["x-ratelimit-reset-tokens"].startswith(("1m", "60"))
        await is_released(gateway.parts.limiter, TENANT)
        stream = await gateway.chat(max_tokens=30, stream=True)
        assert stream.headers["x-ratelimit-remaining-requests"] == "2"
        assert stream.headers["x-ratelimit-remaining-tokens"] == "66", "4 were used and 26 given back"
        gateway.engine.script = Script(refuse=EngineError(400, "context_length_exceeded", "Too long.", "messages"))
        refused = await gateway.chat(max_tokens=30)
        assert (refused.status_code, refused.headers["x-ratelimit-limit-requests"]) == (400, "4")


async def test_who_has_no_limits_is_told_of_none(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        answer = await gateway.chat()
        assert [name for name in answer.headers if name.startswith("x-ratelimit")] == []


async def test_a_refused_request_changes_nothing_and_wakes_nobody(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await limit(gateway.parts.db, *TENANT, requests_per_minute=2)
        await limit(gateway.parts.db, "key", key_id(gateway), monthly_tokens=10_000, concurrency=9)
        for _ in range(2):
            assert (await gateway.chat()).status_code == 200
        await is_released(gateway.parts.limiter, TENANT, ("key", key_id(gateway)))
        before = [await used(gateway.parts.limiter, *at) for at in (TENANT, ("key", key_id(gateway)))]  # type: ignore[arg-type]
        for stream in (False, True):
            answer = await gateway.chat(stream=stream)
            assert answer.status_code == 429
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"
            assert 50 <= int(answer.headers["retry-after"]) <= 61
            assert int(answer.headers["retry-after-ms"]) > 50_000
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        assert [await used(gateway.parts.limiter, *at) for at in (TENANT, ("key", key_id(gateway)))] == before  # type: ignore[arg-type]
        assert len(gateway.engine.requests) == len(await gateway.rows("open")) == 2


async def test_a_full_place_costs_no_request_of_the_minute(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, hold_at=1))) as gateway:
        await limit(gateway.parts.db, *TENANT, concurrency=1, requests_per_minute=5)
        async with asking(gateway, stream=True) as reader:
            await read_until(reader, b'"content":" 0"')
            refused = await gateway.chat()
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert "requests at a time" in refused.json()["error"]["message"]
            told = await used(gateway.parts.limiter, *TENANT)
            assert (told["concurrency"], told["requests_per_minute"]) == (1, 1)
        await is_released(gateway.parts.limiter, TENANT)
        gateway.engine.release.set()
        assert (await gateway.chat()).status_code == 200


async def test_the_official_client_gives_up_on_a_used_up_budget_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        asked = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=2)
        messages: Any = [{"role": "user", "content": "x"}]
        await limit(gateway.parts.db, *TENANT, monthly_tokens=10)
        with pytest.raises(openai.RateLimitError) as quota:
            await asked.chat.completions.create(model=MODEL, messages=messages, max_tokens=5)
        assert quota.value.code == "insufficient_quota"
        assert quota.value.response.request.headers["x-stainless-retry-count"] == "0"
        await asked.close()


async def test_a_budget_is_spent_by_what_the_ledger_bills(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, step=3))) as gateway:
        async with gateway.parts.db.unit() as session:
            price = Price(input=150_000_000, cached=50_000_000, output=600_000_000)
            assert await Prices(session).add(FIRST, price, "system", "a test", 0)
        await gateway.parts.fleet.sync()
        await limit(gateway.parts.db, *TENANT, monthly_tokens=100_000, monthly_micros=10**9)
        for stream in (False, True):
            assert (await gateway.chat(stream=stream, max_tokens=60, n=2)).status_code == 200
        rows = await settled(gateway, 2)
        assert [(row.prompt_tokens, row.cached_tokens, row.completion_tokens) for row in rows] == [(7, 3, 100)] * 2
        await is_released(gateway.parts.limiter, TENANT)
        told = await used(gateway.parts.limiter, *TENANT)
        assert (told["monthly_tokens"], told["monthly_micros"]) == (214, 2 * (4 * 150 + 3 * 50 + 100 * 600))


async def test_a_budget_is_never_exceeded_and_used_to_its_end(tmp_path: Path) -> None:
    """Many at once, each asking for more than it will use."""
    async with running(tmp_path, FakeEngine(Script(words=MANY, step=5, gap=0.002))) as gateway:
        await limit(gateway.parts.db, *TENANT, monthly_tokens=1000)
        answers = [r.status_code for _ in range(6) for r in await asyncio.gather(*(_short(gateway) for _ in range(10)))]
        await is_released(gateway.parts.limiter, TENANT)
        billed = sum(row.prompt_tokens + row.completion_tokens for row in await gateway.rows("settle"))
        assert (await used(gateway.parts.limiter, *TENANT))["monthly_tokens"] == billed <= 1000
        assert answers.count(200) * 57 == billed
        assert answers.count(200) >= 10, "what one did not use, the next one did"
        assert set(answers) == {200, 429}


async def _short(gateway: Gateway) -> httpx.Response:
    return await gateway.chat(max_tokens=60)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_proves_too_large_is_refused_and_costs_nothing(tmp_path: Path, stream: bool) -> None:
    """Its template had more tokens than anybody would guess."""
    async with running(tmp_path, FakeEngine(Script(prompt_tokens=500))) as gateway:
        await limit(gateway.parts.db, *TENANT, monthly_tokens=400, requests_per_minute=5)
        answer = await gateway.chat(stream=stream, max_tokens=5)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_quota")
        row = await gateway.settled()
        assert (row.outcome, row.prompt_tokens, row.completion_tokens) == ("refused", 0, 0)
        await is_released(gateway.parts.limiter, TENANT)
        assert set((await used(gateway.parts.limiter, *TENANT)).values()) == {0}
        assert gateway.engine.closed == [gateway.engine.requests[0].request_id]


async def test_the_guess_is_corrected_when_the_engine_has_counted(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(words=MANY, hold_at=1))) as gateway:
        await limit(gateway.parts.db, *TENANT, input_tokens_per_minute=10_000, output_tokens_per_minute=20_000)
        async with asking(gateway, stream=True, messages=[{"role": "user", "content": "x" * 5000}]) as reader:
            await read_until(reader, b"\r\n\r\n")
            async with asyncio.timeout(1):
                while (told := await used(gateway.parts.limiter, *TENANT))["input_tokens_per_minute"] != 7:
                    await asyncio.sleep(0.01)
            assert told["output_tokens_per_minute"] == 8192 - 7, "no limit but the context's"
        await settled(gateway, 1)


async def test_whatever_ends_a_request_lets_go_of_what_it_held(tmp_path: Path) -> None:
    """A seeded mix: ended, refused by the engine, failed, cut off at every phase, timed out."""
    draw = random.Random(7)
    async with running(tmp_path, Mixed(), settle_seconds=0.3) as gateway:
        await limit(gateway.parts.db, *TENANT, concurrency=100, monthly_tokens=10**6)
        await limit(gateway.parts.db, "key", key_id(gateway), requests_per_minute=10**6, output_tokens_per_minute=10**6)
        async with asyncio.timeout(60):
            await asyncio.gather(*(_one(gateway, draw.randrange(len(KINDS)), draw.random()) for _ in range(60)))
            await settled(gateway, len(await gateway.rows("open")))
        await is_released(gateway.parts.limiter, TENANT, ("key", key_id(gateway)))
        rows = await gateway.rows("settle")
        told = await used(gateway.parts.limiter, *TENANT)
        assert told["monthly_tokens"] == sum(row.prompt_tokens + row.completion_tokens for row in rows)
        told = await used(gateway.parts.limiter, "key", key_id(gateway))
        assert told["output_tokens_per_minute"] == sum(row.completion_tokens for row in rows)
        assert {row.outcome for row in rows} >= {"completed", "disconnected", "error"}


KINDS = [
    *(Script(words=MANY, gap=0.002), Script(words=MANY, step=7, before_accept=0.05, before_first=0.05)),
    Script(refuse=EngineError(503, "queue_full", "Full.")),
    *(Script(words=MANY, fail_at=tokens) for tokens in (0, 30)),
    Script(words=MANY, hold_at=3, deaf=True),
]


class Mixed(FakeEngine):
    """Behaves as the request's limit says, so that each may be of another kind."""

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        assert request.sampling.max_tokens is not None
        self.script = KINDS[request.sampling.max_tokens - 100]
        async with aclosing(super().generate(request)) as stream:  # type: ignore[type-var]
            async for event in stream:
                yield event


async def _one(gateway: Gateway, kind: int, moment: float) -> None:
    members = {"max_tokens": 100 + kind, "stream": moment < 0.5}
    if kind == 5 or moment > 0.7:
        async with asking(gateway, **members) as reader:
            if kind == 5 and members["stream"]:
                await read_until(reader, b'"content":" 0"')  # in any case some leave while it is told
            await asyncio.sleep(0.3 * (moment % 0.5))
    else:
        await gateway.chat(**members)


async def test_cancelled_reservations_are_undone(tmp_path: Path) -> None:
    """The client leaves while the limiter still decides."""
    async with running(tmp_path, FakeEngine()) as gateway:
        await limit(gateway.parts.db, *TENANT, concurrency=50, requests_per_minute=10**6)
        tasks = [asyncio.create_task(gateway.chat()) for _ in range(20)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await is_released(gateway.parts.limiter, TENANT)


async def test_a_limit_that_is_set_holds_within_a_second(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await gateway.chat()).status_code == 200
        await limit(gateway.parts.db, *TENANT, requests_per_minute=0)
        await asyncio.sleep(1.05)
        assert (await gateway.chat()).status_code == 429


async def test_an_error_within_a_stream_keeps_to_the_rules_too(tmp_path: Path) -> None:
    """Headers had left before the engine had counted; the refusal is the stream's error."""
    script = Script(prompt_tokens=500, before_accept=0.3)
    async with running(tmp_path, FakeEngine(script), header_seconds=0.05) as gateway:
        await limit(gateway.parts.db, *TENANT, monthly_tokens=400)
        answer = await gateway.chat(stream=True, max_tokens=5)
        assert answer.status_code == 200
        (only,) = frames(answer.text)
        assert only["error"]["code"] == "insufficient_quota"
        assert (await gateway.settled()).outcome == "refused"

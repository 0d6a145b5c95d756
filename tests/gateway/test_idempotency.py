"""Idempotency-Key: a request that a client named runs once, whatever the client or the network does."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import select, update

from inference.protocol import EngineError
from storage.models import idempotency_keys
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, MODEL, Gateway, chat_body, client, running, serving

pytestmark = pytest.mark.anyio
NAME = "order-4711"


async def _ask(gateway: Gateway, name: str = NAME, path: str = CHAT, **members: Any) -> httpx.Response:
    body = chat_body(**members) if path == CHAT else {"model": MODEL, "prompt": "x"}
    return await gateway.http.post(path, json=body, headers={"Idempotency-Key": name})


def _told(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    code = answer.json()["error"]["code"] if answer.is_error else None
    return answer.status_code, code, answer.headers.get("x-should-retry")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_repeat_is_told_what_became_of_the_first(tmp_path: Path, stream: bool) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        first = await _ask(gateway, stream=stream)
        again = await _ask(gateway, stream=stream)
        assert (first.status_code, _told(again)) == (200, (409, "idempotency_key_used", "false"))
        message = again.json()["error"]["message"]
        assert first.headers["x-request-id"] in message
        assert "completed; 7 prompt and 4 completion tokens" in message
        assert len(gateway.engine.requests) == len(await gateway.rows("open")) == 1


async def test_another_body_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await _ask(gateway)
        assert _told(await _ask(gateway, temperature=1)) == (409, "idempotency_key_reused", "false")
        assert len(gateway.engine.requests) == 1


async def test_names_belong_to_a_key_and_a_route(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await _ask(gateway)
        assert (await _ask(gateway, name="order-4712")).status_code == 200
        assert (await _ask(gateway, path="/v1/completions")).status_code == 200
        assert (await gateway.chat()).status_code == 200
        assert (await gateway.chat()).status_code == 200


async def test_a_repeat_while_it_runs_is_told_so(tmp_path: Path) -> None:
    engine = FakeEngine(Script(hold_at=1))
    async with running(tmp_path, engine) as gateway:
        first = asyncio.create_task(_ask(gateway))
        while not engine.requests:
            await asyncio.sleep(0.01)
        assert _told(await _ask(gateway)) == (409, "idempotency_in_progress", "false")
        engine.release.set()
        assert (await first).status_code == 200


async def test_two_gateways_run_it_once(tmp_path: Path) -> None:
    async with (
        running(tmp_path, FakeEngine()) as gateway,
        serving(gateway.parts) as url,
        client(url, gateway.key) as http,
    ):
        other = Gateway(url, gateway.key, gateway.operator_key, gateway.parts, gateway.engine, http)
        answers = await asyncio.gather(*(_ask(one) for _ in range(8) for one in (gateway, other)))
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
        assert len(gateway.engine.requests) == 1


async def test_an_attempt_that_failed_and_made_nothing_leaves_the_name_free(tmp_path: Path) -> None:
    engine = FakeEngine(Script(refuse=EngineError(503, "engine_starting", "Not yet.")))
    async with running(tmp_path, engine) as gateway:
        assert (await _ask(gateway)).status_code == 503
        engine.script = Script()
        assert (await _ask(gateway)).status_code == 200
        assert _told(await _ask(gateway))[1] == "idempotency_key_used"
        engine.script = Script(fail_at=2)
        assert (await _ask(gateway, name="billed")).status_code == 500
        assert _told(await _ask(gateway, name="billed"))[1] == "idempotency_key_used"


async def test_what_is_refused_before_it_opens_claims_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await _ask(gateway, temperature=9)).status_code == 400
        assert (await _ask(gateway, model="nothing")).status_code == 404
        assert (await _ask(gateway)).status_code == 200


async def test_after_a_day_the_name_is_free(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await _ask(gateway)
        for age, status in ((timedelta(hours=23), 409), (timedelta(hours=24, seconds=1), 200)):
            async with gateway.parts.db.unit() as session:
                await session.execute(update(idempotency_keys).values(at=datetime.now(UTC) - age))
            assert (await _ask(gateway)).status_code == status


async def test_neither_name_nor_body_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await _ask(gateway, name="canary-name")
        async with gateway.parts.db.view() as session:
            [row] = await session.execute(select(idempotency_keys))
        assert "canary" not in repr(row)
        assert (len(row.name_hash), len(row.body_hash)) == (64, 64)
        for name in ("", "x" * 256, "é"):
            answer = await gateway.http.post(
                CHAT, json=chat_body(), headers={"Idempotency-Key": name.encode("latin-1")}
            )  # type: ignore[dict-item]
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "Idempotency-Key")


async def test_the_official_client_does_not_try_it_again(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        asked = 0

        async def count(_: object) -> None:
            nonlocal asked
            asked += 1

        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=2) as api:
            api._client.event_hooks["request"].append(count)
            told: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
            await api.chat.completions.create(**told, extra_headers={"Idempotency-Key": NAME})
            with pytest.raises(openai.ConflictError):
                await api.chat.completions.create(**told, extra_headers={"Idempotency-Key": NAME})
        assert asked == 2

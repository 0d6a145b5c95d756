"""Drafters are changed by the official client while streams run on the real engine: no text changes, every row says
what was at work, and going back brings the old behaviour back.

The engine is the real one over a fake model, behind the real worker's HTTP; the gateway is whole, on a socket.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import AsyncOpenAI, BadRequestError
from sqlalchemy import Row

from gateway.remote_engine import RemoteEngine
from inference.sequence import Batch
from inference.server.service import Service
from storage.deployments import FIRST
from tests.fakes import FakeModel
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import MODEL, Gateway, running
from tests.inference.serving import SECRET, VOCAB, listening, real_worker, served

pytestmark = pytest.mark.anyio
STREAMS = 8
TOKENS = 80
PATH = f"/admin/v1/deployments/{FIRST}"
ADMIN: Any = {"security": {"admin_api_key_auth": True}}
COHORTS = ("control", "treated")
LOOKUP, NONE, OFF = {"drafter": {"kind": "lookup"}}, {"drafter": {"kind": "none"}}, {"enabled": False}


class SlowModel(FakeModel):
    """As slow as a test says, so that drafters change several times within an answer; its texts repeat themselves."""

    def __init__(self) -> None:
        super().__init__(vocab_size=VOCAB, num_blocks=256, block_size=4, copies=9.0)
        self.pause = 0.005

    def forward(self, batch: Batch) -> torch.Tensor:
        time.sleep(self.pause)
        return super().forward(batch)


@asynccontextmanager
async def operated(home: Path, model: SlowModel) -> AsyncIterator[tuple[Gateway, AsyncOpenAI]]:
    """A gateway over one real engine, and the official client with both keys."""
    with real_worker(model, num_blocks=256) as worker:
        async with (
            listening(Service(waiting_for=None, engine=served(worker))) as url,
            running(home, FakeEngine(), lambda *_: RemoteEngine(url, SECRET, poll=0.05)) as gateway,
            official(gateway) as client,
        ):
            await ready(gateway)
            yield gateway, client


def official(gateway: Gateway) -> AsyncOpenAI:
    return AsyncOpenAI(api_key=gateway.key, admin_api_key=gateway.operator_key, base_url=f"{gateway.url}/v1")


async def ready(gateway: Gateway) -> None:
    async with asyncio.timeout(10):
        while (await gateway.http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.02)


async def stream(client: AsyncOpenAI, number: int) -> str:
    """Sampled, so that one token drafted wrongly and kept would change all that follows."""
    chunks = await client.completions.create(
        model=MODEL, prompt=f"{number}abcabc", max_tokens=TOKENS, temperature=0.8, seed=number, stream=True
    )
    return "".join([chunk.choices[0].text async for chunk in chunks if chunk.choices])


async def answers(client: AsyncOpenAI) -> list[str]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*(stream(client, number) for number in range(STREAMS)))


async def configure(gateway: Gateway, client: AsyncOpenAI, speculation: dict[str, Any]) -> Any:
    body = {"speculation": speculation, "reason": "a test"}
    options = ADMIN | {"headers": {"if-match": "*"}}
    return await client.patch(f"{gateway.url}{PATH}", cast_to=object, body=body, options=options)


async def change_under(gateway: Gateway, client: AsyncOpenAI, model: SlowModel) -> None:
    """Passes take long until the drafters have changed several times."""
    model.pause = 0.2
    for speculation in (NONE, LOOKUP, OFF, {"enabled": True}):
        told = await configure(gateway, client, speculation)
        assert [one["refusal"] for one in told["state"]["replicas"]] == [None]
    model.pause = 0.005


async def rows(gateway: Gateway) -> list[Row[Any]]:
    return await gateway.rows("settle")


@pytest.mark.timeout(180)
async def test_texts_stay_the_same_while_drafters_change_and_rows_say_what_was_at_work(tmp_path: Path) -> None:
    model = SlowModel()
    async with operated(tmp_path, model) as (gateway, client):
        expected = await answers(client)
        first = await rows(gateway)
        assert {row.config_version for row in first} == {1}
        assert {row.deployment_id for row in first} == {FIRST}
        assert sum(row.accepted_tokens for row in first) > 0, "drafts were accepted"

        changed, _ = await asyncio.gather(answers(client), change_under(gateway, client, model))
        assert changed == expected
        spanning = (await rows(gateway))[STREAMS:]
        assert len(spanning) == STREAMS
        for row in spanning:
            versions = {int(version): steps for version, steps in row.config_versions.items()}
            assert sum(versions.values()) == row.steps
            assert min(versions) >= row.config_version, "none older than that of its admission"
        assert max(len(row.config_versions) for row in spanning) > 2, "drafters did change under them"


@pytest.mark.timeout(180)
async def test_going_back_brings_the_old_behaviour_back(tmp_path: Path) -> None:
    async with operated(tmp_path, SlowModel()) as (gateway, client):
        told = await client.get(f"{gateway.url}{PATH}", cast_to=object, options=ADMIN)
        assert told["state"]["phase"] == "ready"  # type: ignore[index]
        drafted = [await by_lookup(gateway, client)]
        await configure(gateway, client, NONE)
        drafted.append(await by_lookup(gateway, client))
        with pytest.raises(BadRequestError, match="not built into this version") as refused:
            await configure(gateway, client, {"drafter": {"kind": "eagle3"}})
        assert refused.value.param == "speculation.drafter.kind"
        drafted.append(await by_lookup(gateway, client))
        body = {"version": 1, "reason": "lookup helped"}
        await client.post(f"{gateway.url}{PATH}/rollback", cast_to=object, body=body, options=ADMIN)
        drafted.append(await by_lookup(gateway, client))
        assert drafted[1:3] == [0, 0]
        assert min(drafted[0], drafted[3]) > 0
        assert [row.config_version for row in await rows(gateway)] == [1, 2, 2, 3]
        assert [list(row.config_versions) for row in await rows(gateway)] == [["1"], ["2"], ["2"], ["3"]]


async def by_lookup(gateway: Gateway, client: AsyncOpenAI) -> int:
    """Tokens that lookup drafted for one answer."""
    await stream(client, 0)
    row = (await rows(gateway))[-1]
    return int(row.by_proposer.get("lookup", {}).get("drafted", 0))


@pytest.mark.timeout(180)
async def test_controls_of_the_holdout_draft_nothing_and_say_the_same(tmp_path: Path) -> None:
    async with operated(tmp_path, SlowModel()) as (gateway, client):
        expected = await answers(client)
        await configure(gateway, client, {"holdout_rate": 0.2})
        for _ in range(6):
            assert await answers(client) == expected
        drawn = (await rows(gateway))[STREAMS:]
        drafted = {cohort: [row.drafted_tokens for row in drawn if row.cohort == cohort] for cohort in COHORTS}
        assert sum(map(len, drafted.values())) == len(drawn) == 6 * STREAMS
        assert drafted["control"]
        assert not any(drafted["control"])
        assert sum(drafted["treated"]) > 0

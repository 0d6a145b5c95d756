"""The one property of billing, over route × streamed or not × outcome × policy, all at the same time:

    Σ rows = Σ tokens the engine made      usage shown = usage billed      seen ≤ delivered ≤ billed as visible

and the identities of each row. `Served` is what a client knows of its own request; `bills` joins it with the ledger.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from sqlalchemy import Row, update

from inference.protocol import EngineError, GenerationRequest
from storage.models import tenants
from storage.values import billed_completion
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, MODEL, Gateway, running

pytestmark = pytest.mark.anyio
COMPLETIONS = "/v1/completions"
End = Literal["success", "error", "engine killed", "leaves at 0", "leaves at 1", "leaves at k", "leaves at the last"]
ENDS: tuple[Any, ...] = (*End.__args__, "leaves after [DONE]")  # type: ignore[attr-defined]
OUTCOMES = {"success": {"completed"}, "error": {"error"}, "engine killed": {"engine_lost"}}
TOGETHER = 12


@dataclass
class Served:
    """One request: what was asked, and what its client saw."""

    number: int
    """Its seed: how the engine's record and the client's find each other."""
    route: str
    streams: bool
    end: str
    n: int
    prompts: int
    script: Script
    k: int
    status: int | None = None
    seen: int = 0
    """Tokens of text."""
    usage: dict[str, Any] | None = None
    finished: int = 0
    """Choices that ended."""
    frames: list[Any] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any]:
        text = {"messages": [{"role": "user", "content": "Count."}], "prediction": " 1 2 3"}
        asked = text if self.route == CHAT else {"prompt": ["Count."] * self.prompts}
        options = {"include_usage": True} if self.streams else None
        more = {"model": MODEL, "n": self.n, "seed": self.number, "stream": self.streams}
        return asked | more | ({"stream_options": options} if options else {})

    @property
    def choices(self) -> int:
        return self.n * self.prompts

    def is_enough(self) -> bool:
        """Whether its client leaves now."""
        match self.end:
            case "leaves at 0":
                return True
            case "leaves at 1":
                return self.seen >= 1
            case "leaves at k":
                return self.seen >= self.k
            case "leaves at the last":
                return self.finished == self.choices
        return False


def cases(seed: int) -> Iterator[Served]:
    draw = random.Random(seed)
    for number, (route, streams, end) in enumerate(product((CHAT, COMPLETIONS), (True, False), ENDS)):
        size, k = draw.randint(8, 60), draw.randint(2, 7)
        script = Script(
            words=tuple(f" {i}" for i in range(size)), step=draw.randint(1, 6), rejected=draw.randint(0, 9), gap=0.001
        )
        if end in ("error", "engine killed"):
            error = EngineError(500, "engine_lost" if end == "engine killed" else "engine_error", "It ended.")
            script = Script(**fields_of(script) | {"fail_at": k, "error": error})
        elif end == "leaves at 0":
            script = Script(**fields_of(script) | {"before_first": 30.0})
        elif end in ("leaves at 1", "leaves at k"):
            script = Script(**fields_of(script) | {"hold_at": 1 if end == "leaves at 1" else k})
        prompts = draw.randint(1, 2) if route == COMPLETIONS else 1
        yield Served(number, route, streams, end, draw.randint(1, 3), prompts, script, k)


def fields_of(script: Script) -> dict[str, Any]:
    return {name: getattr(script, name) for name in Script.__dataclass_fields__}


class Cast(FakeEngine):
    """Each request has a script of its own, by its seed."""

    def __init__(self, served: list[Served]) -> None:
        super().__init__()
        self._scripts = {one.number: one.script for one in served}

    def script_of(self, request: GenerationRequest) -> Script:
        assert request.sampling.seed is not None
        return self._scripts[request.sampling.seed]

    def requests_of(self, one: Served) -> list[str]:
        return [request.request_id for request in self.requests if request.sampling.seed == one.number]

    def made_for(self, one: Served) -> int:
        return sum(self.made[request_id] for request_id in self.requests_of(one))


async def ask(gateway: Gateway, engine: Cast, one: Served) -> None:
    if not one.streams and one.end.startswith("leaves at") and one.end != "leaves at the last":
        return await leave_early(gateway, engine, one)
    if not one.streams:
        return hear(one, await gateway.http.post(one.route, json=one.body))
    async with gateway.http.stream("POST", one.route, json=one.body) as response:
        one.status = response.status_code
        lines = response.aiter_lines()
        while not one.is_enough():
            line = await anext(lines, None)
            if line is None:
                break
            read(one, line)


async def leave_early(gateway: Gateway, engine: Cast, one: Served) -> None:
    """Before a whole answer came, once the engine has made as much as the case says."""
    asking = asyncio.create_task(gateway.http.post(one.route, json=one.body))
    least = {"leaves at 0": 0, "leaves at 1": one.choices, "leaves at k": one.k * one.choices}[one.end]
    async with asyncio.timeout(10):
        while len(engine.requests_of(one)) < one.prompts or engine.made_for(one) < least:
            await asyncio.sleep(0.002)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


def hear(one: Served, response: httpx.Response) -> None:
    one.status = response.status_code
    if response.is_success:
        told = response.json()
        one.usage, one.finished = told["usage"], len(told["choices"])
        one.seen = sum(len(text_of(choice, "message").split()) for choice in told["choices"])


def read(one: Served, line: str) -> None:
    if not line.startswith("data: {"):
        return
    told = json.loads(line.removeprefix("data: "))
    one.frames.append(told)
    one.usage = told.get("usage") or one.usage
    for choice in told.get("choices", ()):
        one.seen += len(text_of(choice, "delta").split())
        one.finished += choice["finish_reason"] is not None


def text_of(choice: dict[str, Any], part: str) -> str:
    return choice.get("text") or choice.get(part, {}).get("content") or ""


def holds(one: Served, row: Row[Any], made: int, policy: Any) -> None:
    """What must be true of a request and its settlement."""
    assert row.outcome in OUTCOMES.get(one.end, {"disconnected", "completed"}), one
    assert row.generated_tokens == made
    assert one.seen <= row.delivered_tokens or not one.streams
    assert row.delivered_tokens <= row.visible_tokens <= row.generated_tokens
    assert row.visible_tokens == (row.delivered_tokens if row.outcome == "engine_lost" else made)
    assert row.accepted_prediction_tokens <= row.visible_tokens
    accepted, rejected = row.accepted_prediction_tokens, row.rejected_prediction_tokens
    assert row.completion_tokens == billed_completion(policy, row.visible_tokens, accepted, rejected)
    assert not row.final or made - row.choices_with_output == row.steps + row.accepted_delivered
    assert row.final or row.outcome in ("error", "engine_lost")
    if one.usage is not None:
        details = one.usage["completion_tokens_details"]
        assert one.usage["prompt_tokens"] == row.prompt_tokens == 7 * one.prompts
        assert one.usage["prompt_tokens_details"]["cached_tokens"] == row.cached_tokens
        assert one.usage["completion_tokens"] == row.completion_tokens
        assert details["accepted_prediction_tokens"] == accepted
        assert details["rejected_prediction_tokens"] == rejected
        assert one.seen == row.visible_tokens


async def serve_all(gateway: Gateway, engine: Cast, served: list[Served]) -> None:
    turns = asyncio.Semaphore(TOGETHER)

    async def one_by_one(one: Served) -> None:
        async with turns:
            await ask(gateway, engine, one)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(one_by_one, served))
        while len(await gateway.rows("settle")) < len(served):
            await asyncio.sleep(0.02)


async def bills(gateway: Gateway, engine: Cast, served: list[Served]) -> list[tuple[Served, Row[Any]]]:
    """Each request with its only settlement."""
    rows = {row.request_id: row for row in await gateway.rows("settle")}
    assert len(rows) == len(served) == len(await gateway.rows("settle"))
    return [(one, rows[engine.requests_of(one)[0].removesuffix("-0" if one.prompts > 1 else "")]) for one in served]


@pytest.mark.parametrize("policy", ["free", "billed", "capped"])
async def test_what_was_made_is_billed_once_and_as_shown(tmp_path: Path, policy: str) -> None:
    served = list(cases(seed=len(policy)))
    engine = Cast(served)
    async with running(tmp_path, engine) as gateway:
        async with gateway.parts.db.unit() as session:
            await session.execute(update(tenants).values(rejected_prediction=policy))
        await serve_all(gateway, engine, served)
        billed = await bills(gateway, engine, served)
        for one, row in billed:
            holds(one, row, engine.made_for(one), policy)
        assert sum(row.generated_tokens for _, row in billed) == engine.sent
        ended = [one for one in served if one.end in ("success", "leaves after [DONE]")]
        assert all(one.usage and one.finished == one.choices for one in ended)
        assert sum(row.rejected_prediction_tokens > 0 for _, row in billed) > 10
        assert sum(row.accepted_prediction_tokens > 0 for _, row in billed) > 10
        assert {row.outcome for _, row in billed} == {"completed", "error", "engine_lost", "disconnected"}

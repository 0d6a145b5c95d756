"""Several replicas as one engine: who gets a request, and what becomes of it when a replica fails."""

import asyncio
from contextlib import aclosing

import pytest

from gateway.deployments.balance import MOST_TRIES, Balance
from gateway.deployments.replica import COOL_SECONDS, Replica
from inference.protocol import EngineError, GenerationRequest
from inference.speculation_config import SpeculationConfig
from tests.gateway.fake_engine import WORDS, FakeEngine, Script

pytestmark = pytest.mark.anyio
AWAY = EngineError(503, "engine_unavailable", "The engine cannot be reached.")
WRONG = EngineError(400, "context_length_exceeded", "Too long.")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def replicas(*scripts: Script) -> tuple[list[Replica], Clock]:
    clock = Clock()
    engines = [FakeEngine(script) for script in scripts]
    return [Replica(i, engine, SpeculationConfig, clock=clock) for i, engine in enumerate(engines)], clock


def engine(replica: Replica) -> FakeEngine:
    assert isinstance(replica.engine, FakeEngine)
    return replica.engine


def asked(of: list[Replica]) -> list[list[str]]:
    return [[request.request_id for request in engine(one).requests] for one in of]


async def text(balance: Balance, id: str) -> str:
    request = GenerationRequest(request_id=id, prompt="x")
    async with aclosing(balance.generate(request)) as events:
        return "".join([event.text async for event in events if event.type == "tokens"])


async def test_a_request_goes_where_least_is_in_flight() -> None:
    few, _ = replicas(*[Script(hold_at=1)] * 2)
    balance = Balance(few)
    running = [asyncio.create_task(text(balance, id)) for id in "abcd"]
    await asyncio.sleep(0.05)
    assert asked(few) == [["a", "c"], ["b", "d"]]
    engine(few[1]).release.set()
    await asyncio.gather(running[1], running[3])
    running += [asyncio.create_task(text(balance, "e"))]
    await running[-1]
    assert asked(few)[1] == ["b", "d", "e"]
    engine(few[0]).release.set()
    assert await asyncio.gather(*running) == ["".join(WORDS)] * 5
    assert [one.in_flight for one in few] == [0, 0]


async def test_what_fails_before_its_first_event_goes_to_another_replica_which_cools_the_first() -> None:
    few, clock = replicas(Script(refuse=AWAY), Script())
    balance = Balance(few)
    assert [await text(balance, id) for id in "ab"] == ["".join(WORDS)] * 2
    assert asked(few) == [["a"], ["a", "b"]]
    assert [one.attempt for one in engine(few[1]).requests] == [1, 0]
    clock.now = COOL_SECONDS + 1
    engine(few[0]).script = Script()
    assert await text(balance, "c") == "".join(WORDS)
    assert asked(few)[0] == ["a", "c"], "it is asked again, and is good again"


async def test_a_cooling_replica_is_better_than_none() -> None:
    few, _ = replicas(Script(refuse=AWAY))
    balance = Balance(few)
    for id in "ab":
        with pytest.raises(EngineError, match="cannot be reached"):
            await text(balance, id)
    engine(few[0]).script = Script()
    assert await text(balance, "c") == "".join(WORDS)


async def test_what_has_begun_is_never_repeated() -> None:
    few, _ = replicas(Script(fail_at=2), Script(fail_at=0), Script())
    balance = Balance(few)
    with pytest.raises(EngineError, match="The engine stopped"):
        await text(balance, "a")
    few[1].engine, few[0].engine = few[0].engine, few[1].engine
    with pytest.raises(EngineError, match="The engine stopped"):
        await text(balance, "b")  # accepted was its first event
    assert asked(few)[2] == []


async def test_a_request_that_can_never_run_is_asked_once() -> None:
    few, _ = replicas(Script(refuse=WRONG), Script())
    with pytest.raises(EngineError, match="Too long"):
        await text(Balance(few), "a")
    assert asked(few) == [["a"], []]
    assert not few[0].cools


async def test_a_request_that_breaks_engines_does_not_go_through_all() -> None:
    few, _ = replicas(*[Script(refuse=AWAY)] * (MOST_TRIES + 2))
    with pytest.raises(EngineError):
        await text(Balance(few), "a")
    assert sum(map(len, asked(few))) == MOST_TRIES


async def test_only_ready_replicas_are_asked_while_there_are_some() -> None:
    few, _ = replicas(Script(), Script())
    engine(few[0]).become("loading", "It loads its weights.")
    assert await text(Balance(few), "a") == "".join(WORDS)
    assert asked(few) == [[], ["a"]]
    with pytest.raises(EngineError, match="has no engine now"):
        await text(Balance([]), "a")


async def test_an_abort_reaches_the_replica_that_runs_it() -> None:
    few, _ = replicas(*[Script(hold_at=1)] * 2)
    balance = Balance(few)
    running = [asyncio.create_task(text(balance, id)) for id in "ab"]
    await asyncio.sleep(0.05)
    await balance.abort("b")
    await balance.abort("never seen")
    assert await running[1] == WORDS[0]
    assert [engine(one).aborted for one in few] == [[], ["b"]]
    running[0].cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert [engine(one).closed for one in few] == [["a"], ["b"]]
    assert [one.in_flight for one in few] == [0, 0]


async def test_the_fingerprint_is_that_of_an_engine_that_is_there() -> None:
    few, _ = replicas(Script(), Script())
    assert (await Balance(few).ready()).fingerprint == "fake-fp32"

"""What gateways make of the database: engines come and go, drafters follow, and nothing that answers is cut."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.deployments.fleet import Fleet
from gateway.deployments.replica import MOST_AHEAD
from gateway.deployments.serving import Serving, causes_of, state_of
from gateway.deployments.speculation import Speculation
from inference.protocol import EngineError, GenerationRequest, WorkerLoad
from inference.speculation_config import SpeculationConfig
from storage import Database, StorageAway
from storage.deployments import FIRST, Deployments
from storage.values.deployments import Deployment, DeploymentSpec
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.fleet_of_fakes import Fakes, until

pytestmark = pytest.mark.anyio
SPEC = DeploymentSpec(name="tiny", model="/models/tiny")
LOOKUP = Speculation().model_dump(mode="json")
OFF = Speculation(enabled=False).model_dump(mode="json")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    db = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    async with db.unit() as session:
        await Deployments(session).create(SPEC, LOOKUP, "system", "first", FIRST)
    yield db
    await db.close()


@asynccontextmanager
async def gateway(db: Database, fakes: Fakes, poll: float = 0.02) -> AsyncIterator[tuple[Fleet, Serving]]:
    """One with quick eyes; the serving is that of the first deployment."""
    async with Fleet(db, fakes.start, drain=5, poll=poll) as fleet:
        yield fleet, fleet.servings[FIRST]


async def change(db: Database, config: dict[str, Any] | None = None, **spec: Any) -> Deployment:
    async with db.unit() as session:
        deployments = Deployments(session)
        old = await deployments.get(FIRST)
        assert old is not None
        new = replace(old.spec, **spec)
        done = await (deployments.configure(old, new, config, "a", "b") if config else deployments.change(old, new))
    assert done is not None
    return done


def told(serving: Serving) -> tuple[str, str]:
    state = state_of(serving)
    return state.phase, state.detail


async def test_every_gateway_follows_a_change_within_a_second(db: Database) -> None:
    one, other = Fakes(), Fakes()
    async with Fleet(db, one.start, 1) as first, Fleet(db, other.start, 1) as second:
        await until(lambda: [f.of("tiny").config.version for f in (one, other)] == [1, 1])
        began = time.monotonic()
        await change(db, OFF)
        await until(lambda: [f.of("tiny").config.version for f in (one, other)] == [2, 2])
        assert time.monotonic() - began < 1.0
        assert [f.of("tiny").config.enabled for f in (one, other)] == [False, False]
        assert [f.routes[0].config_version for f in (first, second)] == [2, 2]


async def test_deployments_come_and_go_with_the_database(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (fleet, _):
        async with db.unit() as session:
            new = await Deployments(session).create(replace(SPEC, name="other"), LOOKUP, "a", "b")
        assert new is not None
        await until(lambda: list(fleet.states) == ["tiny", "other"])
        async with db.unit() as session:
            await Deployments(session).delete(new)
        await until(lambda: ("other", 0) in fakes.ended)
        assert [route.name for route in fleet.routes] == ["tiny"]
    assert ("tiny", 0) in fakes.ended, "engines end with the gateway"


async def test_an_engine_that_was_away_gets_the_newest_drafters_when_it_is_back(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (_, serving):
        engine = fakes.of("tiny")
        engine.become("restarting", "It is being started again.")
        await change(db, OFF)
        await change(db, LOOKUP)
        await asyncio.sleep(0.1)
        assert (engine.config.version, told(serving)) == (1, ("loading", "It is being started again."))
        engine.config = SpeculationConfig(version=0)
        engine.become("ready")
        await until(lambda: engine.config.version == 3)
        assert told(serving)[0] == "ready"


async def test_drafters_that_an_engine_refuses_leave_the_old_ones_at_work(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (fleet, serving):
        engine = fakes.of("tiny")
        engine.refuses = EngineError(409, "configuration_refused", "No room for the drafter.")
        await change(db, OFF)
        await until(lambda: told(serving)[0] == "degraded")
        assert told(serving)[1] == "Replica 0 keeps the drafters it has."
        assert causes_of(serving) == ["Replica 0: No room for the drafter."]
        assert (engine.config.version, engine.config.enabled) == (1, True)
        assert fleet.state.phase == "ready", "it answers"
        engine.refuses = None
        await until(lambda: told(serving)[0] == "ready")
        assert engine.config.version == 2


async def test_an_engine_that_another_gateway_told_more_is_left_alone(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (_, serving):
        engine, newer = fakes.of("tiny"), SpeculationConfig(version=7, origin=FIRST)
        engine.config = newer
        assert serving.current is not None
        [replica] = serving.current.replicas
        for _ in range(MOST_AHEAD):
            await replica.look()
        assert (engine.config, told(serving)[0]) == (newer, "ready")
        assert serving.is_settled
        await replica.look()
        assert (engine.config, told(serving)[0]) == (newer, "degraded")
        [cause] = causes_of(serving)
        assert "version 7 of its drafters, and the database has 1: if the database was set back" in cause


async def test_an_engine_that_served_another_deployment_is_told_the_drafters_of_this_one(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (_, _):
        fakes.of("tiny").config = SpeculationConfig(version=7, origin="dep_gone")
        await until(lambda: (fakes.of("tiny").config.version, fakes.of("tiny").config.origin) == (1, FIRST))


async def test_replicas_are_added_and_drained(db: Database) -> None:
    fakes = Fakes(Script(hold_at=1))
    async with gateway(db, fakes) as (fleet, serving):
        await change(db, replicas=3)
        await until(lambda: ("tiny", 2) in fakes.engines)
        [route] = fleet.routes
        running = [asyncio.create_task(whole(route.client.generate(ask(f"r{i}")))) for i in range(3)]
        await until(lambda: [len(fakes.of("tiny", i).requests) for i in range(3)] == [1, 1, 1])
        await change(db, replicas=1)
        assert serving.current is not None
        await until(lambda: len(serving.current.replicas) == 1)  # type: ignore[union-attr]
        assert fakes.ended == [], "they still answer"
        for index in range(3):
            fakes.of("tiny", index).release.set()
        assert len(await asyncio.gather(*running)) == 3
        await until(lambda: set(fakes.ended) == {("tiny", 1), ("tiny", 2)})


async def test_another_load_takes_over_when_it_is_ready_and_the_old_one_drains(db: Database) -> None:
    fakes = Fakes(Script(hold_at=1))
    async with gateway(db, fakes) as (fleet, serving):
        old = fakes.of("tiny")
        running = asyncio.create_task(whole(fleet.routes[0].client.generate(ask("r"))))
        await until(lambda: old.requests)
        fakes.phase = "loading"
        await change(db, max_sequences=4)
        await until(lambda: fakes.of("tiny") is not old)
        assert told(serving) == ("ready", "A change is being loaded beside it.")
        assert fleet.routes[0].client is serving.current.client  # type: ignore[union-attr]
        fakes.of("tiny").become("ready")
        await until(lambda: serving.coming is None)
        assert fakes.ended == []
        old.release.set()
        await running
        await until(lambda: fakes.ended == [("tiny", 0)])
        fakes.of("tiny").release.set()
        await whole(fleet.routes[0].client.generate(ask("s")))
        assert [one.request_id for one in fakes.of("tiny").requests] == ["s"]


async def test_a_load_that_fails_leaves_the_old_one_at_work_until_it_is_mended(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (fleet, serving):
        old, fakes.phase = fakes.of("tiny"), "failed"
        await change(db, model="/models/broken")
        await until(lambda: told(serving)[0] == "degraded")
        assert "cannot be loaded: It is failed. The engines before it go on." in told(serving)[1]
        await whole(fleet.routes[0].client.generate(ask("r")))
        assert len(old.requests) == 1
        await change(db, model="/models/tiny")
        await until(lambda: told(serving)[0] == "ready")
        await until(lambda: fakes.ended == [("tiny", 0)])


async def test_what_never_was_ready_is_replaced_at_once(db: Database) -> None:
    fakes = Fakes()
    fakes.phase = "failed"
    async with gateway(db, fakes) as (fleet, serving):
        assert (told(serving)[0], fleet.state.phase) == ("failed", "failed")
        fakes.phase = "ready"
        await change(db, model="/models/other")
        await until(lambda: told(serving)[0] == "ready")
        await until(lambda: fakes.ended == [("tiny", 0)])


async def test_switched_off_it_finishes_what_it_has_and_takes_nothing_new(db: Database) -> None:
    fakes = Fakes(Script(hold_at=1))
    async with gateway(db, fakes) as (fleet, serving):
        running = asyncio.create_task(whole(fleet.routes[0].client.generate(ask("r"))))
        await until(lambda: fakes.of("tiny").requests)
        await change(db, enabled=False)
        await until(lambda: fleet.routes == [])
        assert told(serving)[0] == "draining"
        assert (fleet.state.phase, fleet.state.detail[:24]) == ("failed", "No deployment is enabled")
        fakes.of("tiny").release.set()
        await running
        await until(lambda: told(serving)[0] == "disabled")
        await change(db, enabled=True)
        await until(lambda: told(serving)[0] == "ready")


async def test_a_database_that_is_away_changes_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def view(self) -> None:
            raise StorageAway("no answer")

    fakes = Fakes()
    async with gateway(db, fakes) as (fleet, serving):
        fleet._db = Away()  # type: ignore[assignment]
        await asyncio.sleep(0.1)
        assert told(serving)[0] == "ready"
        fleet._db = db
        await change(db, OFF)
        await until(lambda: fakes.of("tiny").config.version == 2)


async def test_drafters_of_another_release_leave_those_before_them(db: Database) -> None:
    fakes = Fakes()
    async with gateway(db, fakes) as (_, serving):
        await change(db, LOOKUP | {"drafter": {"kind": "telepathy"}})
        await until(lambda: told(serving)[0] == "degraded")
        assert "Version 2 of its drafters was written by another release" in told(serving)[1]
        assert serving.speculation == Speculation()


async def test_an_engine_that_says_nothing_is_told_of(db: Database) -> None:
    class Silent(FakeEngine):
        async def load(self) -> WorkerLoad:
            raise EngineError(503, "engine_unavailable", "It cannot be reached.")

    fakes = Fakes()
    async with gateway(db, fakes) as (_, serving):
        assert serving.current is not None
        serving.current.replicas[0].engine = Silent()
        await until(lambda: told(serving)[0] == "degraded")
        assert causes_of(serving) == ["Replica 0: It cannot be reached."]


def ask(id: str) -> GenerationRequest:
    return GenerationRequest(request_id=id, prompt="x")


async def whole(events: AsyncIterator[Any]) -> list[Any]:
    async with asyncio.timeout(10):
        return [event async for event in events]

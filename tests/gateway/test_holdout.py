"""The holdout: who is a control follows from the request's id alone, is written down, and changes no text."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import Principal
from gateway.deployments.speculation import Drafter, Speculation
from gateway.holdout import Holdout, Lot, rate_for
from gateway.openai.schema import CompletionRequest
from gateway.routing import Fingerprint, Route
from storage.tenants import Tenants
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, running

COHORT = "x-specgate-cohort"
SECRET = b"a secret of the installation"
IDS = [f"request-{number}" for number in range(2000)]


def controls(rate: float, secret: bytes = SECRET) -> set[str]:
    holdout = Holdout(secret)
    return {id for id in IDS if holdout.draw(id, rate).is_control}


def test_the_same_ids_are_the_same_controls() -> None:
    few, many = controls(0.02), controls(0.2)
    assert (len(few), len(many)) == (33, 389)
    assert few < many, "a higher rate adds controls and lets none go"
    assert controls(0.02, b"another") != few
    assert Holdout(SECRET).draw(IDS[0], 0.02).ppm == 20_000


def test_nobody_is_drawn_at_a_rate_of_nothing() -> None:
    assert {Holdout(SECRET).draw(id, 0.0) for id in IDS} == {Lot(None, None)}


def test_every_id_is_a_control_where_all_are() -> None:
    assert len(controls(1.0)) == len(IDS)


@pytest.mark.parametrize(
    ("members", "agreed", "rate"),
    [
        ({}, False, 0.1),
        ({"speculation": "auto"}, False, 0.1),
        ({"speculation": "off"}, False, 0.0),
        ({"prediction": "x"}, False, 0.0),
        ({"prediction": "x"}, True, 0.1),
        ({"prediction": "x", "speculation": "off"}, True, 0.0),
    ],
)
def test_who_takes_part(members: dict[str, Any], agreed: bool, rate: float) -> None:
    engine = FakeEngine()
    route = Route("dep", "m", engine, Fingerprint(engine), 0, holdout_rate=0.1)
    principal = Principal("acme", "k", "inference", holdout_includes_prediction=agreed)
    asked = CompletionRequest.model_validate({"model": "m", "prompt": "x", **members})
    assert rate_for(principal, asked, route) == rate


@pytest.mark.parametrize(
    ("speculation", "rate"),
    [
        (Speculation(), 0.02),
        (Speculation(holdout_rate=0.2), 0.2),
        (Speculation(enabled=False), 0.0),
        (Speculation(drafter=Drafter(kind="none")), 0.0),
    ],
)
def test_a_deployment_without_a_drafter_draws_nobody(speculation: Speculation, rate: float) -> None:
    assert speculation.drawn_rate == rate


async def ask(gateway: Gateway, times: int, **members: Any) -> list[tuple[str, str | None, str]]:
    """(request id, cohort, text) of each answer."""
    answers = await asyncio.gather(*(gateway.chat(**members) for _ in range(times)))
    return [
        (one.headers["x-request-id"], one.headers.get(COHORT), one.json()["choices"][0]["message"]["content"])
        for one in answers
    ]


@pytest.mark.anyio
async def test_controls_run_without_speculation_and_rows_say_who_they_were(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), holdout_rate=0.2) as gateway:
        told = await ask(gateway, 60)
        drawn = {id: gateway.parts.holdout.draw(id, 0.2) for id, _, _ in told}
        assert {id: cohort for id, cohort, _ in told} == {id: lot.cohort for id, lot in drawn.items()}
        assert {lot.cohort for lot in drawn.values()} == {"control", "treated"}, "60 at 20 %: 1 in 650,000 says no"
        assert {text for _, _, text in told} == {"Hello, world!"}
        modes = {request.request_id: request.speculation.mode for request in gateway.engine.requests}
        assert modes == {id: "off" if lot.is_control else "auto" for id, lot in drawn.items()}
        rows = [*await gateway.rows("open"), *await gateway.rows("settle")]
        assert len(rows) == 2 * len(told)
        for row in rows:
            assert (row.cohort, row.holdout_ppm) == (drawn[row.request_id].cohort, 200_000)
            assert (row.speculation, row.sampled) == ("auto", True)


@pytest.mark.anyio
async def test_predictions_are_held_out_only_where_the_tenant_agreed(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), holdout_rate=0.2) as gateway:
        assert {cohort for _, cohort, _ in await ask(gateway, 30, prediction="Hello")} == {None}
        assert {cohort for _, cohort, _ in await ask(gateway, 3, speculation="off", temperature=0)} == {None}
        rows = await gateway.rows("settle")
        assert {(row.cohort, row.holdout_ppm) for row in rows} == {(None, None)}
        assert {(row.speculation, row.sampled) for row in rows} == {("auto", True), ("off", False)}
        async with gateway.parts.db.unit() as session:
            tenant = await Tenants(session).get("default")
            assert tenant is not None
            await Tenants(session).update(tenant, "default", "free", holdout_includes_prediction=True)
        await asyncio.sleep(1.1)  # a key's terms are remembered for a second
        assert {cohort for _, cohort, _ in await ask(gateway, 60, prediction="Hello")} == {"control", "treated"}


@pytest.mark.anyio
async def test_a_stream_says_its_cohort_in_its_headers(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), holdout_rate=0.2) as gateway:
        answer = await gateway.chat(stream=True)
        assert answer.headers[COHORT] == gateway.parts.holdout.draw(answer.headers["x-request-id"], 0.2).cohort
        refused = await gateway.chat(stream=True, n=0)
        assert COHORT not in refused.headers

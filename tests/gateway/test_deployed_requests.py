"""What a request sees of deployments: names, aliases, opting out, and what its usage row says of them."""

from pathlib import Path

import pytest

from storage.deployments import FIRST
from tests.gateway.fake_engine import Script
from tests.gateway.fleet_of_fakes import DEPLOYMENTS, Fakes, made, operated, patch
from tests.gateway.running import MODEL

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_rows_carry_the_configuration_of_its_admission(tmp_path: Path) -> None:
    fakes = Fakes(Script(hold_at=1))
    async with operated(tmp_path, fakes) as (gateway, http):
        engine = fakes.of(MODEL)
        async with gateway.http.stream(
            "POST", "/v1/completions", json={"model": MODEL, "prompt": "x", "stream": True}
        ) as r:
            lines = r.aiter_lines()
            await anext(lines)
            await patch(http, FIRST, speculation={"enabled": False})
            assert engine.config.version == 2
            engine.release.set()
            assert "data: [DONE]" in [line async for line in lines]
        await gateway.chat()
        assert [request.speculation.config_version for request in engine.requests] == [1, 2]
        for kind in ("open", "settle"):
            assert [(row.deployment_id, row.config_version) for row in await gateway.rows(kind)] == [
                (FIRST, 1),
                (FIRST, 2),
            ]


async def test_opting_out_is_the_operators_to_allow(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        assert (await gateway.chat(speculation="off")).status_code == 200
        assert fakes.of(MODEL).requests[-1].speculation.mode == "off"
        await patch(http, FIRST, speculation={"allow_opt_out": False})
        refused = await gateway.chat(speculation="off")
        error = refused.json()["error"]
        assert (refused.status_code, error["param"], error["code"]) == (400, "speculation", "unsupported_parameter")
        assert (await gateway.chat(speculation="auto")).status_code == 200
        assert (await gateway.chat()).status_code == 200
        assert len(await gateway.rows("open")) == 3, "what is refused opens nothing"


async def test_aliases_are_models_and_rows_name_what_ran_them(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        id = (await made(http, tmp_path, aliases=[{"name": "small"}]))["id"]
        listed = (await gateway.http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == [MODEL, "tiny", "small"]
        assert (await gateway.http.get("/v1/models/small")).json() == listed[2]
        answer = await gateway.chat(model="small")
        assert answer.json()["model"] == "small", "as it was asked for"
        assert len(fakes.of("tiny").requests) == 1
        row = await gateway.settled()
        assert (row.model, row.deployment_id, row.config_version) == ("small", id, 1)


async def test_readyz_names_every_deployment_and_one_that_is_ready_is_enough(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        fakes.phase = "loading"
        await made(http, tmp_path, enabled=False, name="off")
        id = (await made(http, tmp_path))["id"]
        ready = await gateway.http.get("/readyz")
        phases = {name: one["phase"] for name, one in ready.json()["deployments"].items()}
        assert (ready.status_code, phases) == (200, {MODEL: "ready", "off": "disabled", "tiny": "loading"})
        fakes.of(MODEL).become("restarting", "It is being started again.")
        waiting = await gateway.http.get("/readyz")
        assert (waiting.status_code, waiting.json()["waits_for"]) == (503, "It is being started again.")
        told = (await http.get(f"{DEPLOYMENTS}/{id}")).json()["state"]
        assert (told["phase"], told["detail"]) == ("loading", "It is loading.")

"""What an engine's log and its machine's paths say is for operators; clients and probes get a plain reason."""

from pathlib import Path

import pytest

from gateway.errors import ServerError
from gateway.supervisor import REFUSED, EngineState, Phase
from inference.protocol import EngineError
from storage.deployments import FIRST
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.fleet_of_fakes import DEPLOYMENTS, Fakes, operated, until
from tests.gateway.running import client, running

pytestmark = pytest.mark.anyio
CAUSE = "Its log /srv/home/engine.log ends: Traceback … no kernel image"


@pytest.mark.parametrize("phase", ["failed", "restarting"])
async def test_an_engine_that_is_away(tmp_path: Path, phase: Phase) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        engine = fakes.of("smollm2-135m")
        engine.state = EngineState(phase, REFUSED, cause=CAUSE)
        await until(lambda: gateway.parts.fleet.state.phase != "ready")
        async with client(gateway.url, "") as anybody:
            readyz = await anybody.get("/readyz", headers={"authorization": "none"})
        heard = [readyz, await gateway.chat(), await gateway.http.get("/v1/models")]
        assert readyz.json()["waits_for"] == REFUSED
        assert not [one.text for one in heard if "/srv" in one.text or "Traceback" in one.text]
        told = (await http.get(f"{DEPLOYMENTS}/{FIRST}")).json()["state"]
        assert (told["detail"], told["cause"], told["replicas"][0]["cause"]) == (REFUSED, CAUSE, CAUSE)


@pytest.mark.parametrize(
    ("status", "code", "heard"),
    [
        (500, "engine_failed", (500, "engine_failed", "The engine failed. Try again.")),
        (503, "engine_failed", (503, "engine_failed", "The engine failed. Try again.")),
        (500, "model_refused", (500, "server_error", ServerError().message)),
        (500, "internal_error", (500, "server_error", ServerError().message)),
        (400, "protocol_mismatch", (500, "server_error", ServerError().message)),
    ],
)
async def test_an_engine_that_says_why_it_failed(
    tmp_path: Path, status: int, code: str, heard: tuple[int, str, str]
) -> None:
    """One that runs elsewhere is asked until it is gone."""
    said = EngineError(status, code, "The engine failed: the model could not be loaded: /srv/models/x/config.json")
    async with running(tmp_path, FakeEngine(Script(refuse=said))) as gateway:
        response = await gateway.chat()
        told = response.json()["error"]
        assert (response.status_code, told["code"], told["message"]) == heard

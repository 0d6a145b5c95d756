"""Models as the key may use them; liveness and readiness."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gateway.supervisor import EngineState
from storage import StorageAway
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import running, serving

pytestmark = pytest.mark.anyio


async def test_models(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        listed = (await gateway.http.get("/v1/models")).json()
        (model,) = listed["data"]
        assert listed["object"] == "list"
        assert (model["id"], model["object"], model["owned_by"]) == ("smollm2-135m", "model", "specgate")
        assert isinstance(model["created"], int)
        assert (await gateway.http.get("/v1/models/smollm2-135m")).json() == model
        unknown = await gateway.http.get("/v1/models/other/name")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


async def test_models_need_a_key(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, httpx.AsyncClient(base_url=gateway.url) as stranger:
        for path in ("/v1/models", "/v1/models/smollm2-135m"):
            assert (await stranger.get(path)).status_code == 401


async def test_health_says_what_it_waits_for(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with running(tmp_path, engine) as gateway, httpx.AsyncClient(base_url=gateway.url) as probe:
        assert (await probe.get("/livez")).json() == {"status": "ok"}
        ready = await probe.get("/readyz")
        deployments = {"smollm2-135m": {"phase": "ready", "detail": "It is ready."}}
        told = {"status": "ready", "durability": "process", "deployments": deployments}
        assert (ready.status_code, ready.json()) == (200, told)

        engine.state = EngineState("loading", "The engine loads its weights.")
        waiting = await probe.get("/readyz")
        assert (waiting.status_code, waiting.json()["waits_for"]) == (503, "The engine loads its weights.")
        assert waiting.json()["error"]["code"] == "not_ready"
        assert waiting.json()["durability"] == "process"
        assert waiting.json()["deployments"]["smollm2-135m"]["phase"] == "loading"
        assert waiting.headers["retry-after"] == "1"
        assert (await probe.get("/livez")).status_code == 200

        gateway.parts.drain.is_leaving = True
        draining = await probe.get("/readyz")
        assert (draining.status_code, draining.json()["waits_for"]) == (503, "This gateway is shutting down.")


async def test_no_docs(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        for path in ("/docs", "/redoc", "/"):
            response = await gateway.http.get(path)
            assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_url")


async def test_not_ready_without_its_database(tmp_path: Path) -> None:
    class Away:
        durability = "process"

        async def ping(self) -> None:
            raise StorageAway("no answer")

    async with running(tmp_path, FakeEngine()) as gateway:
        parts = replace(gateway.parts, db=Away())  # type: ignore[arg-type]
        async with serving(parts) as url, httpx.AsyncClient(base_url=url) as probe:
            answer = await probe.get("/readyz")
    assert (answer.status_code, answer.json()["waits_for"]) == (503, "The database does not answer.")

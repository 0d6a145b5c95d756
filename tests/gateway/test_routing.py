"""Models and salts."""

import pytest

from gateway.auth import Principal
from gateway.errors import ModelNotFound
from gateway.routing import Deployment, Fingerprint, Router
from inference.protocol import EngineError, WorkerReady
from tests.gateway.fake_engine import FakeEngine

ALICE, BOB = Principal("alice", "k1", "inference"), Principal("bob", "k2", "inference")


def deployment(name: str) -> Deployment:
    engine = FakeEngine()
    return Deployment(name, engine, Fingerprint(engine), created=1)


def test_unknown_models_list_the_known() -> None:
    router = Router([deployment("a"), deployment("b")], b"secret")
    assert router.route(ALICE, "b").name == "b"
    with pytest.raises(ModelNotFound, match="Models this key may use: `a`, `b`"):
        router.route(ALICE, "c")


def test_salts_tell_tenants_deployments_and_installations_apart() -> None:
    a, b = deployment("a"), deployment("b")
    one, other = Router([a, b], b"secret"), Router([a, b], b"another")
    salts = {router.cache_salt(who, to) for router in (one, other) for who in (ALICE, BOB) for to in (a, b)}
    assert len(salts) == 8
    assert one.cache_salt(ALICE, a) == Router([a], b"secret").cache_salt(ALICE, a)
    assert "alice" not in one.cache_salt(ALICE, a)


@pytest.mark.anyio
async def test_the_fingerprint_is_asked_until_it_is_known() -> None:
    class Loading(FakeEngine):
        asked = 0

        async def ready(self) -> WorkerReady:
            self.asked += 1
            if self.asked == 1:
                raise EngineError(503, "engine_starting", "The engine waits for its weights.")
            return await super().ready()

    engine = Loading()
    fingerprint = Fingerprint(engine)
    assert [await fingerprint.get() for _ in range(3)] == [None, "fake-fp32", "fake-fp32"]
    assert engine.asked == 2

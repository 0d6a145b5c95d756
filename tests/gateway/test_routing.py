"""Models, aliases and salts."""

from collections import Counter
from itertools import count

import pytest

from gateway.auth import Principal
from gateway.errors import ModelNotFound
from gateway.routing import Fingerprint, Route, Router
from inference.protocol import EngineError, WorkerReady
from tests.gateway.fake_engine import FakeEngine

ALICE, BOB = Principal("alice", "k1", "inference"), Principal("bob", "k2", "inference")


def route(name: str, created: int = 1, is_ready: bool = True, **weights: int) -> Route:
    engine = FakeEngine()
    return Route(f"dep_{name}", name, engine, Fingerprint(engine), created, weights=weights, is_ready=is_ready)


def router(*routes: Route, secret: bytes = b"secret") -> Router:
    draws = (number % 100 / 100 for number in count())
    return Router(lambda: routes, secret, lambda: next(draws))


def test_unknown_models_list_the_known() -> None:
    one = router(route("a"), route("b", cheap=1))
    assert one.route(ALICE, "b").name == "b"
    with pytest.raises(ModelNotFound, match="Models this key may use: `a`, `b`, `cheap`"):
        one.route(ALICE, "c")


def test_what_there_is_may_change_between_two_requests() -> None:
    routes = [route("a")]
    one = Router(lambda: routes, b"secret")
    routes.append(route("b"))
    assert one.route(ALICE, "b").name == "b"


def test_a_key_sees_and_uses_the_names_it_may_use_and_no_others() -> None:
    one = router(route("b", created=2, fast=1), route("a", created=1, fast=1, cheap=2))
    assert list(one.models(ALICE)) == ["a", "b", "cheap", "fast"]
    few = Principal("alice", "k1", "inference", models=frozenset({"fast", "b", "gone"}))
    assert list(one.models(few)) == ["b", "fast"]
    assert one.route(few, "fast").name in ("a", "b")
    for model in ("a", "cheap"):
        with pytest.raises(ModelNotFound, match="Models this key may use: `b`, `fast`"):
            one.route(few, model)


def test_an_alias_goes_to_its_deployments_by_weight() -> None:
    one = router(route("a", fast=3), route("b", fast=1), route("c"))
    assert Counter(one.route(ALICE, "fast").name for _ in range(100)) == {"a": 75, "b": 25}


def test_an_alias_goes_where_something_is_ready() -> None:
    one = router(route("a", is_ready=False, fast=3), route("b", fast=1))
    assert {one.route(ALICE, "fast").name for _ in range(100)} == {"b"}
    assert router(route("a", is_ready=False, fast=3)).route(ALICE, "fast").name == "a", "it says what it waits for"


def test_a_deployments_own_name_wins_over_an_alias() -> None:
    one = router(route("a", b=9), route("b"))
    assert {one.route(ALICE, "b").name for _ in range(10)} == {"b"}
    assert one.models(ALICE)["b"].name == "b"


def test_salts_tell_tenants_deployments_and_installations_apart() -> None:
    a, b = route("a"), route("b")
    one, other = router(a, b), router(a, b, secret=b"another")
    salts = {each.cache_salt(who, to) for each in (one, other) for who in (ALICE, BOB) for to in (a, b)}
    assert len(salts) == 8
    assert one.cache_salt(ALICE, a) == router(a).cache_salt(ALICE, a)
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

"""Deployments: one truth, no lost updates, and drafter configurations that are only ever added."""

from dataclasses import replace

import pytest

from storage import Database
from storage.deployments import FIRST, Deployments
from storage.values.deployments import Alias, Deployment, DeploymentSpec

pytestmark = pytest.mark.anyio
SPEC = DeploymentSpec(
    name="tiny",
    model="/models/tiny",
    revision="ab12",
    dtype="float32",
    device="cpu",
    max_model_len=256,
    cache_gib=0.5,
    max_sequences=8,
    engine_url="http://10.0.0.7:8100",
    replicas=2,
    aliases=(Alias("small", 3), Alias("cheap")),
    enabled=False,
)
LOOKUP = {"drafter": {"kind": "lookup", "length": 8}}
NONE = {"drafter": {"kind": "none"}}


async def create(db: Database, spec: DeploymentSpec = SPEC) -> Deployment:
    async with db.unit() as session:
        made = await Deployments(session).create(spec, LOOKUP, "abcdefghijkl", "asked for")
    assert made is not None
    return made


async def get(db: Database, id: str) -> Deployment | None:
    async with db.view() as session:
        return await Deployments(session).get(id)


async def test_what_is_made_comes_back_with_its_first_configuration(db: Database) -> None:
    made = await create(db)
    assert (made.spec, made.version, made.config_version, made.id[:4]) == (SPEC, 1, 1, "dep_")
    async with db.view() as session:
        repository = Deployments(session)
        [(found, config)] = await repository.current()
        assert await repository.list() == [found] == [made]
        assert await repository.versions(made.id) == [config]
    assert (config.version, config.author, config.reason, config.config) == (1, "abcdefghijkl", "asked for", LOOKUP)
    assert config.created_at == made.created_at


async def test_a_name_is_taken_until_its_deployment_is_deleted(db: Database) -> None:
    made = await create(db)
    async with db.unit() as session:
        assert await Deployments(session).create(replace(SPEC, device="auto"), NONE, "a", "b") is None
        assert await Deployments(session).delete(made)
        assert not await Deployments(session).delete(made)
    again = await create(db)
    assert again.id != made.id
    assert await get(db, made.id) is None
    async with db.view() as session:
        assert [one.id for one in await Deployments(session).list()] == [again.id]
        assert len(await Deployments(session).versions(made.id)) == 1, "usage rows still name it"


async def test_of_two_editors_the_second_changes_nothing(db: Database) -> None:
    read = await create(db)
    async with db.unit() as session:
        first = await Deployments(session).configure(read, SPEC, NONE, "alice", "no gain")
    async with db.unit() as session:
        repository = Deployments(session)
        assert await repository.configure(read, SPEC, LOOKUP, "bob", "more gain") is None
        assert await repository.change(read, replace(SPEC, replicas=3)) is None
        assert not await repository.delete(read)
    assert await get(db, read.id) == first
    async with db.view() as session:
        versions = await Deployments(session).versions(read.id)
    assert [(v.version, v.author, v.config) for v in versions] == [(2, "alice", NONE), (1, "abcdefghijkl", LOOKUP)]


async def test_only_a_drafter_configuration_makes_a_version_of_it(db: Database) -> None:
    made = await create(db)
    wider = replace(SPEC, replicas=4, aliases=(), enabled=True)
    async with db.unit() as session:
        changed = await Deployments(session).change(made, wider)
        assert changed is not None
        assert (changed.spec, changed.version, changed.config_version) == (wider, 2, 1)
        configured = await Deployments(session).configure(changed, wider, NONE, "alice", "no gain")
        assert configured is not None
        assert (configured.version, configured.config_version) == (3, 2)
        assert (await Deployments(session).current())[0][1].config == NONE
        old = await Deployments(session).version(made.id, 1)
        assert old is not None
        assert old.config == LOOKUP
        assert await Deployments(session).version(made.id, 3) is None


async def test_the_first_one_is_made_once_and_never_again(db: Database) -> None:
    for name in ("tiny", "other"):
        async with db.unit() as session:
            await Deployments(session).ensure_first(replace(SPEC, name=name), LOOKUP, "first start")
    first = await get(db, FIRST)
    assert first is not None
    assert first.spec.name == "tiny"
    async with db.unit() as session:
        await Deployments(session).delete(first)
        await Deployments(session).ensure_first(SPEC, LOOKUP, "first start")
        assert await Deployments(session).list() == []

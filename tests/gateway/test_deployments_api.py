"""The admin API of deployments: what may be written, who was first, why, and what was told of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.trail import audit_key
from storage.audit import Audit
from storage.deployments import FIRST
from storage.paging import Cursor
from storage.values.audit import AuditQuery
from tests.gateway.fleet_of_fakes import DEPLOYMENTS, Fakes, folder_of, made, operated, patch
from tests.gateway.running import Gateway

pytestmark = pytest.mark.anyio
OFF = {"drafter": {"kind": "none"}}


async def audited(gateway: Gateway) -> list[tuple[str, str, Any]]:
    async with gateway.parts.db.view() as session:
        audit = Audit(session, audit_key(gateway.parts.secret))
        events, _ = await audit.page(AuditQuery(), Cursor(50, order="desc"))
        assert (await audit.verify()).problems == ()
    return [(e.action, e.target, (e.after or {}).get("reason")) for e in events if e.action.startswith("deployment.")]


async def test_the_first_start_makes_one_from_the_settings(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes(), device="cpu", dtype="float32") as (_, http):
        [told] = (await http.get(DEPLOYMENTS)).json()["data"]
        assert (told["id"], told["name"], told["model"]) == (FIRST, "smollm2-135m", "smollm2-135m")
        assert (told["device"], told["dtype"], told["version"]) == ("cpu", "float32", 1)
        assert told["speculation"]["drafter"] == {
            "kind": "lookup",
            "length": None,
            "ngram": {"min": 2, "max": 5},
            "scope": "request",
            "model": None,
            "revision": None,
            "suffix": {"min_match": 2, "factor": 2.0},
        }
        assert told["state"]["phase"] == "ready"
        assert told["speculation_version"]["author"] == "system"
    async with operated(tmp_path, Fakes()) as (_, http):
        assert [one["device"] for one in (await http.get(DEPLOYMENTS)).json()["data"]] == ["cpu"], "it is kept"


async def test_a_deployment_is_made_answers_and_is_told(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        response = await http.post(
            DEPLOYMENTS, json={"name": "tiny", "model": folder_of(tmp_path), "replicas": 2, "reason": "for tests"}
        )
        told = response.json()
        assert (response.status_code, response.headers["etag"], told["version"]) == (200, '"1"', 1)
        assert told["speculation_version"]["reason"] == "for tests"
        assert told["speculation_version"]["author"] == gateway.operator_key.split("-")[2]
        assert (told["state"]["phase"], len(told["state"]["replicas"])) == ("ready", 2)
        assert [one["speculation_version"] for one in told["state"]["replicas"]] == [1, 1]
        assert told["capabilities"]["context_length"] == 8192
        assert told["capabilities"]["tools"] is False
        assert [one["kind"] for one in told["capabilities"]["drafters"] if one["available"]] == [
            "none",
            "lookup",
            "suffix",
        ]
        assert "runs with lookup only" in told["capabilities"]["default_drafter"]["why"]
        assert (await http.get(f"{DEPLOYMENTS}/{told['id']}")).json() == told
        assert (await gateway.chat(model="tiny")).status_code == 200
        assert len(fakes.of("tiny").requests) + len(fakes.of("tiny", 1).requests) == 1
        assert await audited(gateway) == [("deployment.created", told["id"], "for tests")]


async def test_what_is_deleted_takes_no_request_and_its_engines_end(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        id = (await made(http, tmp_path))["id"]
        stale = await http.delete(f"{DEPLOYMENTS}/{id}", headers={"if-match": '"9"'})
        assert stale.status_code == 412
        gone = await http.delete(f"{DEPLOYMENTS}/{id}", headers={"x-specgate-reason": "not needed"})
        assert gone.json() == {"object": "deployment.deleted", "id": id, "deleted": True}
        for method, path in (("GET", id), ("PATCH", id), ("DELETE", id), ("GET", f"{id}/versions")):
            answer = await http.request(method, f"{DEPLOYMENTS}/{path}", **({"json": {}} if method == "PATCH" else {}))
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert (await gateway.chat(model="tiny")).status_code == 404
        assert (await audited(gateway))[0] == ("deployment.deleted", id, "not needed")
        assert (await made(http, tmp_path))["id"] != id, "the name is free again"
    assert ("tiny", 0) in fakes.ended


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ""}, "name", "minimum length 1"),
    ({"name": " a"}, "name", "match pattern"),
    ({"name": "a\nb"}, "name", "match pattern"),
    ({"name": None}, "name", "Missing required parameter"),
    ({"model": "no such model"}, "model", "give one of smollm2-135m, or a folder"),
    ({"device": "tpu"}, "device", "auto|cpu|cuda"),
    ({"dtype": "int8"}, "dtype", "'float32', 'bfloat16' or 'float16'"),
    ({"replicas": 0}, "replicas", ">= 1"),
    ({"replicas": 2, "engine_url": "http://10.0.0.1:1"}, "replicas", "with an engine_url it is 1"),
    ({"engine_url": "ftp://x"}, "engine_url", "write http://host:port"),
    ({"engine_url": "http://me:secret@10.0.0.1:1"}, "engine_url", "write http://host:port"),
    ({"cache_gib": -1}, "cache_gib", "> 0"),
    ({"revision": "main"}, "revision", "match pattern"),
    ({"aliases": [{"name": "tiny"}]}, "aliases[0].name", "has that name already"),
    ({"aliases": [{"name": "a"}, {"name": "a"}]}, "aliases[1].name", "has that name already"),
    ({"aliases": [{"name": "a", "weight": 0}]}, "aliases[0].weight", ">= 1"),
    ({"version": 3}, "version", "Unknown parameter"),
    ({"speculation": {"drafter": {"kind": "eagle3"}}}, "speculation.drafter.kind", "not built into this version"),
]


async def test_what_may_not_be_written_is_refused_by_name(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        for members, param, why in REFUSED:
            with subtests.test(members=str(members)):
                body = {"name": "tiny", "model": folder_of(tmp_path)} | members
                response = await http.post(DEPLOYMENTS, json={k: v for k, v in body.items() if v is not None})
                error = response.json()["error"]
                assert (response.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
                assert why in error["message"]
        assert len((await http.get(DEPLOYMENTS)).json()["data"]) == 1


async def test_names_mean_one_deployment(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        await made(http, tmp_path, aliases=[{"name": "small"}])
        for members, param in (
            ({"name": "tiny"}, "name"),
            ({"name": "small"}, "name"),
            ({"name": "b", "aliases": [{"name": "x"}, {"name": "tiny"}]}, "aliases[1].name"),
        ):
            response = await http.post(DEPLOYMENTS, json={"model": folder_of(tmp_path)} | members)
            assert (response.status_code, response.json()["error"]["code"]) == (409, "name_taken")
            assert response.json()["error"]["param"] == param
        elsewhere = {"model": "m", "engine_url": "http://10.0.0.1:1", "enabled": False}
        assert (await http.post(DEPLOYMENTS, json=elsewhere | {"name": "c"})).status_code == 200
        taken = (await http.post(DEPLOYMENTS, json=elsewhere | {"name": "d"})).json()["error"]
        assert (taken["code"], taken["param"]) == ("conflict", "engine_url")
        shared = await made(http, tmp_path, name="b", aliases=[{"name": "small", "weight": 2}])
        assert (await patch(http, shared["id"], aliases=[{"name": "tiny"}])).status_code == 409


async def test_a_change_names_the_version_it_changes_and_says_why(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (gateway, http):
        id = (await made(http, tmp_path))["id"]
        unconditional = await patch(http, id, match=None, speculation=OFF)
        assert (unconditional.status_code, unconditional.headers["etag"]) == (428, '"1"')
        first = await patch(http, id, '"1"', speculation=OFF)
        assert (first.status_code, first.headers["etag"]) == (200, '"2"')
        second = await patch(http, id, '"1"', speculation={"enabled": False})
        assert (second.status_code, second.headers["etag"]) == (412, '"2"')
        assert '"2"' in second.json()["error"]["message"]
        told = (await http.get(f"{DEPLOYMENTS}/{id}")).json()
        assert (told["speculation"]["enabled"], told["speculation"]["drafter"]["kind"]) == (True, "none")

        unexplained = await http.patch(f"{DEPLOYMENTS}/{id}", json={"replicas": 2}, headers={"if-match": '"2"'})
        assert (unexplained.status_code, unexplained.json()["error"]["param"]) == (400, "reason")
        too_long = {"if-match": '"2"', "x-specgate-reason": "x" * 1025}
        for method in ("PATCH", "DELETE"):
            answer = await http.request(method, f"{DEPLOYMENTS}/{id}", content=b'{"replicas": 2}', headers=too_long)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "reason")
        by_header = {"if-match": '"2"', "x-specgate-reason": "more load"}
        assert (await http.patch(f"{DEPLOYMENTS}/{id}", json={"replicas": 2}, headers=by_header)).status_code == 200
        assert [one[::2] for one in await audited(gateway)] == [
            ("deployment.updated", "more load"),
            ("deployment.updated", "a test"),
            ("deployment.created", "Created."),
        ]


async def test_of_many_editors_at_once_one_wins(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (gateway, http):
        asked = [patch(http, FIRST, '"1"', speculation={"adaptive": {"maximum": 20 + n}}) for n in range(8)]
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
        assert {answer.headers["etag"] for answer in answers} == {'"2"'}
        [winner] = [answer.json() for answer in answers if answer.status_code == 200]
        now = (await http.get(f"{DEPLOYMENTS}/{FIRST}")).json()
        assert now["speculation"] == winner["speculation"]
        assert len(await audited(gateway)) == 1


async def test_a_change_of_nothing_is_no_version(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (gateway, http):
        id = (await made(http, tmp_path))["id"]
        same = await patch(http, id, speculation={"drafter": {"kind": "lookup"}}, replicas=1)
        assert (same.status_code, same.headers["etag"]) == (200, '"1"')
        assert len(await audited(gateway)) == 1


async def test_only_drafters_have_versions_and_null_is_the_default_again(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        id = (await made(http, tmp_path))["id"]
        await patch(http, id, speculation={"drafter": {"length": 3, "ngram": {"min": 3}}})
        await patch(http, id, aliases=[{"name": "small"}])
        reset = (await patch(http, id, speculation={"drafter": {"length": None, "ngram": None}}, aliases=None)).json()
        assert (reset["speculation"]["drafter"]["ngram"], reset["aliases"]) == ({"min": 2, "max": 5}, [])
        assert (reset["version"], reset["speculation_version"]["version"]) == (4, 3)
        versions = (await http.get(f"{DEPLOYMENTS}/{id}/versions")).json()["data"]
        assert [(v["version"], v["speculation"]["drafter"]["length"]) for v in versions] == [
            (3, None),
            (2, 3),
            (1, None),
        ]


async def test_the_name_stays(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        response = await patch(http, FIRST, name="renamed")
        assert (response.status_code, response.json()["error"]["param"]) == (400, "name")


async def test_a_dry_run_says_all_that_would_change_and_changes_nothing(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (gateway, http):
        id = (await made(http, tmp_path))["id"]
        before = (await http.get(f"{DEPLOYMENTS}/{id}")).json()
        url, match = f"{DEPLOYMENTS}/{id}?dry_run=true", {"if-match": '"1"'}
        body = {"speculation": {"drafter": {"kind": "none"}, "allow_opt_out": False}, "replicas": 3}
        plan = (await http.patch(url, json=body, headers=match)).json()
        assert plan["changes"] == [
            {"field": "replicas", "from": 1, "to": 3},
            {"field": "speculation.drafter.kind", "from": "lookup", "to": "none"},
            {"field": "speculation.allow_opt_out", "from": True, "to": False},
        ]
        assert (plan["needs_load"], plan["changes_drafters"]) == (False, True)
        assert plan["memory"]["basis"] == "unknown", "an empty folder says nothing"
        loaded = (await http.patch(url, json={"device": "cpu"}, headers=match)).json()
        assert (loaded["needs_load"], loaded["changes_drafters"]) == (True, False)
        assert (await http.patch(url, json=body, headers={"if-match": '"7"'})).status_code == 412
        wrong = await http.patch(url, json={"speculation": {"holdout_rate": 0.3}}, headers=match)
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "speculation.holdout_rate")
        shared = await http.patch(url, json={"speculation": {"drafter": {"scope": "tenant"}}}, headers=match)
        assert (shared.status_code, shared.json()["error"]["param"]) == (400, "speculation.drafter.scope")
        created = await http.post(f"{DEPLOYMENTS}?dry_run=true", json={"name": "b", "model": folder_of(tmp_path)})
        assert {"field": "name", "from": None, "to": "b"} in created.json()["changes"]
        assert (await http.get(f"{DEPLOYMENTS}/{id}")).json() == before
        assert len((await http.get(DEPLOYMENTS)).json()["data"]) == 2
        assert len(await audited(gateway)) == 1


async def test_going_back_is_a_new_version_with_the_old_content(tmp_path: Path) -> None:
    fakes = Fakes()
    async with operated(tmp_path, fakes) as (gateway, http):
        id = (await made(http, tmp_path))["id"]
        await patch(http, id, speculation=OFF)
        assert not fakes.of("tiny").config.lookup.enabled
        body = {"version": 1, "reason": "it was better"}
        back = (await http.post(f"{DEPLOYMENTS}/{id}/rollback", json=body)).json()
        assert (back["speculation_version"]["version"], back["speculation"]["drafter"]["kind"]) == (3, "lookup")
        assert (fakes.of("tiny").config.version, fakes.of("tiny").config.lookup.enabled) == (3, True)
        assert (await audited(gateway))[0] == ("deployment.rolled_back", id, "it was better")
        for wrong, param in (({"version": 9}, "version"), ({"version": 0}, "version"), ({"reason": ""}, "reason")):
            response = await http.post(f"{DEPLOYMENTS}/{id}/rollback", json=body | wrong)
            assert (response.status_code, response.json()["error"]["param"]) == (400, param)
        stale = await http.post(f"{DEPLOYMENTS}/{id}/rollback", json=body, headers={"if-match": '"1"'})
        assert stale.status_code == 412


async def test_other_keys_are_refused(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (gateway, _):
        assert (await gateway.http.get(DEPLOYMENTS)).status_code == 403
        assert (await gateway.http.post(DEPLOYMENTS, json={})).status_code == 403

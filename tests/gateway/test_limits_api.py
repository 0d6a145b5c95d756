"""Operators set limits, a key sees those that apply to it; every change is a version, audited, and can be tried dry."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from storage.models import audit_events
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.limiting import key_id
from tests.gateway.running import Gateway, client, running

pytestmark = pytest.mark.anyio
LIMITS = "/admin/v1/limits"
NONE = {
    **{"concurrency": None, "requests_per_minute": None, "input_tokens_per_minute": None},
    **{"output_tokens_per_minute": None, "monthly_tokens": None, "monthly_micros": None},
}


async def patch(http: httpx.AsyncClient, path: str, match: str | None, **members: Any) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await http.patch(f"{LIMITS}/{path}", json=members, headers=headers)


async def audited(gateway: Gateway) -> list[tuple[str, str]]:
    async with gateway.parts.db.view() as session:
        statement = select(audit_events).where(audit_events.c.action == "limits.updated").order_by(audit_events.c.seq)
        return [(row.target, row.details) for row in await session.execute(statement)]


async def test_a_change_is_a_version_and_holds(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        before = await http.get(f"{LIMITS}/tenant/default")
        assert before.json() == {"object": "limits", "scope": "tenant", "id": "default", **NONE, "version": 0} | {
            "standings": []
        }
        assert before.headers["etag"] == '"0"'
        set = await patch(http, "tenant/default", '"0"', requests_per_minute=1, monthly_tokens=500)
        assert (set.status_code, set.headers["etag"], set.json()["requests_per_minute"]) == (200, '"1"', 1)
        assert [(s["name"], s["limit"], s["remaining"]) for s in set.json()["standings"]] == [
            ("requests_per_minute", 1, 1),
            ("monthly_tokens", 500, 500),
        ]
        assert (await gateway.chat(max_tokens=10)).status_code == 200
        assert (await gateway.chat(max_tokens=10)).status_code == 429
        cleared = await patch(http, "tenant/default", '"1"', requests_per_minute=None)
        assert cleared.json() | {"standings": []} == {
            **{"object": "limits", "scope": "tenant", "id": "default", **NONE, "version": 2},
            **{"monthly_tokens": 500, "standings": []},
        }
        same = await patch(http, "tenant/default", '"2"', monthly_tokens=500)
        assert same.headers["etag"] == '"2"', "nothing differs"
        targets = [target for target, _ in await audited(gateway)]
        assert targets == ["tenant:default", "tenant:default"]


async def test_the_example_of_the_readme_works(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    example = re.search(r"curl -X PATCH http://127\.0\.0\.1:8000(\S+limits/\S+) .*?-d '(.*?)'", readme, re.DOTALL)
    assert example is not None
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        set = await http.patch(example[1], content=example[2], headers={"if-match": "*"})
        assert set.status_code == 200
        assert set.json() == set.json() | json.loads(example[2])


async def test_every_level_has_limits(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        for path in ("tenant/default", "project/proj_default", f"key/{key_id(gateway)}"):
            assert (await patch(http, path, "*", concurrency=3)).json()["concurrency"] == 3


@pytest.mark.parametrize("path", ["tenant/nobody", "project/none", "key/aaaaaaaaaaaa", "galaxy/default"])
async def test_what_does_not_exist_has_no_limits(tmp_path: Path, path: str) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        assert (await http.get(f"{LIMITS}/{path}")).status_code == 404
        assert (await patch(http, path, "*", concurrency=3)).status_code == 404


async def test_lost_updates_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        assert (await patch(http, "tenant/default", None, concurrency=3)).status_code == 428
        assert (await patch(http, "tenant/default", '"0"', concurrency=3)).status_code == 200
        stale = await patch(http, "tenant/default", '"0"', concurrency=4)
        assert (stale.status_code, stale.headers["etag"]) == (412, '"1"')
        assert (await http.get(f"{LIMITS}/tenant/default")).json()["concurrency"] == 3
        assert len(await audited(gateway)) == 1


async def test_a_dry_run_tells_every_change_and_makes_none(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        await patch(http, "tenant/default", "*", concurrency=3, monthly_micros=7)
        dry = await patch(http, "tenant/default?dry_run=true", '"1"', concurrency=4, monthly_micros=None)
        assert dry.json() == {
            "object": "limits.dry_run",
            "changes": [
                {"field": "concurrency", "from": 3, "to": 4},
                {"field": "monthly_micros", "from": 7, "to": None},
            ],
        }
        now = (await http.get(f"{LIMITS}/tenant/default")).json()
        assert (now["concurrency"], now["monthly_micros"], now["version"]) == (3, 7, 1)
        assert len(await audited(gateway)) == 1


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"concurrency": -1}, "concurrency"),
        ({"requests_per_minute": 1.5}, "requests_per_minute"),
        ({"monthly_tokens": "5"}, "monthly_tokens"),
        ({"monthly_micros": 2**53}, "monthly_micros"),
        ({"version": 7}, "version"),
        ({"tokens": 7}, "tokens"),
    ],
)
async def test_what_is_no_limit_is_refused_by_name(tmp_path: Path, members: dict[str, Any], param: str) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        refused = await patch(http, "tenant/default", "*", **members)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_a_key_sees_its_own_limits_and_no_other_key_s(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as http:
        await patch(http, "tenant/default", "*", monthly_tokens=1000)
        await patch(http, f"key/{key_id(gateway)}", "*", requests_per_minute=5)
        await patch(http, f"key/{gateway.operator_key.split('-')[2]}", "*", concurrency=77)
        assert (await gateway.chat(max_tokens=10)).status_code == 200
        told = (await gateway.http.get("/v1/key")).json()
        requests, budget = sorted(told.pop("limits"), key=lambda one: one["scope"])
        assert told.pop("created_at") > 0
        assert told == {
            **{"object": "key", "id": key_id(gateway), "name": "inference (first start)", "kind": "inference"},
            **{"organization_id": "default", "project_id": "proj_default", "scopes": ["self", "inference"]},
            **{"models": None, "expires_at": None},
        }
        resets_at = requests.pop("resets_at")
        assert requests == {
            **{"object": "limit", "scope": "key", "id": key_id(gateway), "name": "requests_per_minute"},
            **{"limit": 5, "used": 1, "remaining": 4},
        }
        assert resets_at > 0
        assert (budget["name"], budget["limit"], budget["scope"]) == ("monthly_tokens", 1000, "tenant")

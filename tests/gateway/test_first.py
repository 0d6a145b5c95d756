"""What later starts make of the settings that the first deployment has too: followed, until an operator decides."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.start_up import remark_lines
from gateway.deployments.first import Remark, ensure_first
from gateway.home import HomeRefused
from gateway.secret import audit_key
from gateway.serve import Started, open_parts
from storage import Database
from storage.audit import Audit
from storage.deployments import FIRST, Deployments
from storage.paging import Cursor
from storage.values.audit import AuditEvent, AuditQuery
from storage.values.deployments import Alias, DeploymentSpec
from tests.gateway.fleet_of_fakes import DEPLOYMENTS, Fakes, folder_of, made, operated, patch
from tests.gateway.running import Gateway, settings_for

pytestmark = pytest.mark.anyio


async def first(gateway: Gateway) -> tuple[DeploymentSpec, int]:
    async with gateway.parts.db.view() as session:
        found = await Deployments(session).get(FIRST)
    assert found is not None
    return found.spec, found.version


async def audited(gateway: Gateway) -> list[AuditEvent]:
    """Changes of the first deployment, the oldest first."""
    async with gateway.parts.db.view() as session:
        audit = Audit(session, audit_key(gateway.parts.secret))
        assert (await audit.verify()).problems == ()
        return (await audit.page(AuditQuery(targets=[FIRST]), Cursor(50)))[0][::-1]


async def remarks(home: Path, **settings: Any) -> list[Remark]:
    """Of one start."""
    async with open_parts(settings_for(home, **settings), Fakes().start) as (_, opened):
        return opened.remarks


async def test_a_setting_that_is_given_later_is_followed_and_audited(tmp_path: Path) -> None:
    assert await remarks(tmp_path, device="cuda", max_model_len=99) == []
    [told] = await remarks(tmp_path, device="cuda:1", dtype="float16", max_model_len=99)
    assert told == Remark(
        "Deployment smollm2-135m was changed as the settings say: device cuda → cuda:1, dtype None → float16."
    )
    async with operated(tmp_path, Fakes()) as (gateway, _):
        spec, version = await first(gateway)
        assert (spec.device, spec.dtype, spec.max_model_len, version) == ("cuda:1", "float16", 99, 2)
        [event] = await audited(gateway)
        assert (event.action, event.actor.kind, event.actor.id) == ("deployment.updated", "system", "settings")
        assert event.before is not None
        assert event.after is not None
        assert (event.before["device"], event.after["device"]) == ("cuda", "cuda:1")
        assert (event.after["version"], event.after["reason"]) == (2, "As the settings say.")
    assert await remarks(tmp_path, device="cuda:1") == [], "nothing is left to change"
    assert await remarks(tmp_path) == [], "a default asks for nothing"


async def test_what_an_operator_set_stays_and_the_start_says_how_to_change_it(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes(), device="cuda") as (_, http):
        assert (await patch(http, FIRST, device="cpu", max_sequences=3)).status_code == 200
    told = await remarks(tmp_path, device="cuda", dtype="float32")
    assert [one.patch for one in told] == [{}, {"device": "cuda"}]
    assert told[0].text.endswith(": dtype None → float32."), "the operator said nothing of this one"
    assert "SPECGATE_DEVICE=cuda (it has cpu)" in told[1].text
    async with operated(tmp_path, Fakes(), device="cuda") as (gateway, http):
        spec, _ = await first(gateway)
        assert (spec.device, spec.dtype, spec.max_sequences) == ("cpu", "float32", 3)
        # set by an operator, and back by an operator: it is still theirs
        assert (await patch(http, FIRST, device="cuda")).status_code == 200
    [told_again] = await remarks(tmp_path, device="cpu")
    assert told_again.patch == {"device": "cpu"}


async def test_the_curl_line_that_it_says_changes_it(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        assert (await patch(http, FIRST, device="cpu")).status_code == 200
    settings = settings_for(tmp_path, device="cuda:3")
    async with operated(tmp_path, Fakes(), device="cuda:3") as (gateway, _):
        told = await ensure_first(gateway.parts.db, settings, gateway.parts.secret)
        started = Started(gateway.url, gateway.url, None, "process", 0, gateway.parts.fleet, tuple(told))  # type: ignore[arg-type]
        _, line = remark_lines(started, tmp_path)
        run = ["bash", "-c", f"{line} --silent --fail"]
        done = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, timeout=20)
        assert json.loads(done.stdout)["device"] == "cuda:3", done.stderr
        assert (await first(gateway))[0].device == "cuda:3"


async def test_another_model_gives_the_deployment_its_name(tmp_path: Path) -> None:
    """An answer never bears the name of a model that is gone."""
    await remarks(tmp_path)
    folder = folder_of(tmp_path, "qwen")
    [told] = await remarks(tmp_path, model=folder)
    assert told.text.startswith("Deployment smollm2-135m, now qwen, was changed as the settings say: model smollm2")
    async with operated(tmp_path, Fakes(), model=folder) as (gateway, http):
        spec, version = await first(gateway)
        assert (spec.name, spec.model, version) == ("qwen", folder, 2)
        assert list(gateway.parts.fleet.states) == ["qwen"]
        assert (await gateway.chat(model="qwen")).status_code == 200
        assert (await gateway.chat(model="smollm2-135m")).status_code == 404
        # a name that is another deployment's, or its alias, is not taken from it
        await made(http, tmp_path, aliases=[{"name": "other"}])
    for name in ("tiny", "other"):
        [told] = await remarks(tmp_path, model=_twin(tmp_path, name))
        assert told == Remark(f"SPECGATE_MODEL is not followed. The name {name} is taken; choose another.")


def _twin(path: Path, name: str) -> str:
    (path / "twin").mkdir(exist_ok=True)
    return folder_of(path / "twin", name)


async def test_a_name_that_an_operator_gave_as_alias_becomes_the_name(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        aliases = [{"name": "qwen"}, {"name": "code"}]
        assert (await patch(http, FIRST, aliases=aliases)).status_code == 200
    await remarks(tmp_path, model=folder_of(tmp_path, "qwen"))
    async with operated(tmp_path, Fakes()) as (gateway, _):
        spec, _ = await first(gateway)
        assert (spec.name, spec.aliases) == ("qwen", (Alias("code"),))


async def test_a_model_that_there_is_not_is_refused_before_anything_changes(tmp_path: Path) -> None:
    await remarks(tmp_path)
    with pytest.raises(HomeRefused, match=r"SPECGATE_MODEL: .*no such model"):
        await remarks(tmp_path, model="no such model", device="cuda")
    async with operated(tmp_path, Fakes()) as (gateway, _):
        spec, version = await first(gateway)
        assert (spec.model, spec.device, version) == ("smollm2-135m", "auto", 1)


async def test_a_deployment_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    async with operated(tmp_path, Fakes()) as (_, http):
        assert (await http.delete(f"{DEPLOYMENTS}/{FIRST}")).status_code == 200
    assert await remarks(tmp_path, device="cuda") == []


async def test_an_erased_change_by_an_operator_is_taken_for_theirs(tmp_path: Path) -> None:
    from sqlalchemy import update

    from storage.models import audit_events

    async with operated(tmp_path, Fakes()) as (_, http):
        assert (await patch(http, FIRST, device="cpu")).status_code == 200
    db = await Database.open(f"sqlite+aiosqlite:///{tmp_path / 'specgate.db'}")
    async with db.unit() as session:
        await session.execute(update(audit_events).where(audit_events.c.target == FIRST).values(details=None))
    await db.close()
    [told] = await remarks(tmp_path, device="cuda")
    assert told.patch == {"device": "cuda"}

"""Tenants, projects, service accounts and keys: each tenant finds its own alone, page by page, on both databases."""

from datetime import timedelta

import pytest

from storage import Database
from storage.api_keys import ApiKeys, KeyScope
from storage.errors import UnknownCursor
from storage.keyring import Keyring
from storage.paging import Cursor
from storage.projects import Projects
from storage.service_accounts import ServiceAccounts
from storage.tenants import Tenants

pytestmark = pytest.mark.anyio


async def test_every_tenant_has_a_default_project(db: Database) -> None:
    async with db.unit() as session:
        made = await Tenants(session).create("acme", "Acme")
        assert await Tenants(session).create("acme", "Acme again") is None
        assert (await Tenants(session).get("acme")) == made
        [project], has_more = await Projects(session, "acme").page(Cursor())
    assert (project.id, project.is_default, has_more) == ("proj_acme", True, False)


async def test_lists_go_both_ways(db: Database) -> None:
    async with db.unit() as session:
        projects = Projects(session, "default")
        ids = ["proj_default", *[(await projects.create(f"p{number}")).id for number in range(5)]]

        async def page(**cursor: object) -> tuple[list[str], bool]:
            found, has_more = await projects.page(Cursor(**cursor))  # type: ignore[arg-type]
            return [project.id for project in found], has_more

        assert await page(limit=3) == (ids[:3], True)
        assert await page(limit=3, after=ids[2]) == (ids[3:], False)
        assert await page(limit=2, before=ids[4]) == (ids[2:4], True)
        assert await page(limit=9, before=ids[2]) == (ids[:2], False)
        assert await page(limit=9, after=ids[0], before=ids[3]) == (ids[1:3], False)
        assert await page(limit=2, order="desc") == (ids[:3:-1], True)
        assert await page(limit=9, after=ids[2], order="desc") == (ids[1::-1], False)
        with pytest.raises(UnknownCursor, match="after"):
            await page(after="proj_nowhere")


async def test_another_tenant_s_things_are_not_found(db: Database) -> None:
    async with db.unit() as session:
        await Tenants(session).create("other", "Other")
        theirs = await Projects(session, "other").create("theirs")
        account = await ServiceAccounts(session, theirs.id).create("a", "member")
        key = await ApiKeys(session).create("other", "inference", "k", project_id=theirs.id)
        assert await Projects(session, "default").get(theirs.id) is None
        assert await ServiceAccounts(session, "proj_default").get(account.id) is None
        ours = KeyScope("default", ("inference",))
        assert await ApiKeys(session).get(key.public_id, ours) is None
        assert await ApiKeys(session).get(key.public_id, KeyScope("other", ("operator",))) is None
        with pytest.raises(UnknownCursor):
            await Projects(session, "default").page(Cursor(after=theirs.id))


async def test_a_rotated_key_overlaps_and_a_deleted_account_takes_its_keys(db: Database) -> None:
    async with db.unit() as session:
        keys = ApiKeys(session)
        account = await ServiceAccounts(session, "proj_default").create("a", "member")
        old = await keys.create("default", "inference", "k", service_account_id=account.id, allowed_models=["m"])
        found = await keys.get(old.public_id)
        assert found is not None
        new = await keys.rotate(found, timedelta(hours=1))
        holders = [await Keyring(session).find(key.key) for key in (old, new)]
        assert [holder.key.allowed_models for holder in holders if holder] == [["m"], ["m"]]
        assert await keys.revoke_of(account.id) == sorted([old.public_id, new.public_id])
        assert [await Keyring(session).find(key.key) for key in (old, new)] == [None, None]


async def test_a_key_without_a_project_is_the_default_one_s(db: Database) -> None:
    """As a release without projects makes them."""
    async with db.unit() as session:
        key = await ApiKeys(session).create("default", "inference", "k", project_id=None)
        holder = await Keyring(session).find(key.key)
    assert holder is not None
    assert holder.project_id == "proj_default"

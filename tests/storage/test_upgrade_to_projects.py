"""A database of the first release, with a key and a settled request, upgraded: nothing is lost, all has a project."""

from datetime import UTC, datetime, timedelta

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url

from storage import Database
from storage.api_keys import ApiKeys
from storage.engines import sqlite_migrator
from storage.key_format import digest
from storage.keyring import Keyring
from storage.projects import Projects
from storage.schema import MIGRATIONS, head, upgrade
from storage.usage import Usage, UsageQuery
from tests.storage.postgres import Server

pytestmark = pytest.mark.anyio
SECRET = "abcdefghij0123456789ABCDEFGHIJ_-klmnopqrstu"
AT = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = (
    "INSERT INTO tenants (id, name, created_at) VALUES ('acme', 'Acme', 1)",
    "INSERT INTO api_keys (public_id, tenant_id, kind, name, secret_sha256, created_at) "
    f"VALUES ('aaaaaaaaaaaa', 'acme', 'inference', 'old', '{digest(SECRET)}', 1)",
    "INSERT INTO ledger_entries (entry_id, request_id, kind, seq, tenant_id, key_id, model, route, owner, "
    "rejected_prediction, choices, at, outcome, completion_tokens) VALUES ('e', 'r', 'settle', 0, 'acme', "
    f"'aaaaaaaaaaaa', 'm', '/v1', 'o', 'free', 1, {int(AT.timestamp()) * 1_000_000}, 'completed', 9)",
)


def _first_release(connection: Connection) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS))
    command.upgrade(config, "0001")
    for row in ROWS:
        connection.execute(text(row))


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/old.db"
        with sqlite_migrator(make_url(url)).begin() as connection:
            _first_release(connection)
        return url
    server: Server = request.getfixturevalue("postgres")
    url = server.create(f"old_{tmp_path.__hash__() & 0xFFFFFF:x}")
    engine = create_engine(url)
    with engine.begin() as connection:
        _first_release(connection)
    engine.dispose()
    return url


async def test_nothing_is_lost_and_all_has_a_project(old_url: str) -> None:
    assert upgrade(old_url) == head()
    db = await Database.open(old_url)
    async with db.unit() as session:
        holder = await Keyring(session).find(f"sk-sg-aaaaaaaaaaaa-{SECRET}")
        assert holder is not None
        assert (holder.key.name, holder.project_id, holder.key.version) == ("old", "proj_acme", 1)
        project = await Projects(session, "acme").get("proj_acme")
        assert project is not None
        assert project.is_default
        await ApiKeys(session).create("acme", "tenant_admin", "an admin: the kinds are wider now")
        asked = UsageQuery(AT, AT + timedelta(days=1), timedelta(days=1), ["project_id"], project_ids=["proj_acme"])
        [row] = await Usage(session).rows(asked)
    assert (row.group, row.sums["completion_tokens"]) == ({"project_id": "proj_acme"}, 9)
    await db.close()

"""`specgate usage` and `usage export` on a running server: a table, JSON, CSV; every settled entry once."""

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest

from storage import Database
from tests.gateway.test_apply import call, server
from tests.gateway.test_export import DUE, write_settled

__all__ = ["server"]


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """What was settled an hour ago, before the server starts."""
    path = tmp_path / "home" / "specgate.db"
    path.parent.mkdir(mode=0o700)

    async def write() -> list[str]:
        db = await Database.open(f"sqlite+aiosqlite:///{path}")
        try:
            return await write_settled(db, *range(1, 1206))
        finally:
            await db.close()

    return asyncio.run(write())


def test_every_settled_entry_is_exported_once_and_counted_in_a_report(ids: list[str], server: str) -> None:
    _exported(server, ids)
    _reported(server)


def _exported(server: str, ids: list[str]) -> None:
    told = call(server, "usage", "export")
    assert told.exit_code == 0, told.output
    assert [json.loads(line)["id"] for line in told.stdout.splitlines()] == ids
    rows = list(csv.DictReader(io.StringIO(call(server, "usage", "export", "--format", "csv").stdout, newline="")))
    assert [row["id"] for row in rows] == ids
    assert (rows[0]["kind"], rows[0]["completion_tokens"]) == ("settle", "20")
    later = (DUE.replace(microsecond=0)).isoformat()
    assert call(server, "usage", "export", "--start", later, "--end", later).stdout == ""
    assert call(server, "usage", "export", "--end", str(int(DUE.timestamp()) + 60)).stdout == told.stdout
    wrong = call(server, "usage", "export", "--start", "yesterday")
    assert (wrong.exit_code, "--start 'yesterday' is no time" in wrong.stderr) == (2, True)
    unknown = call(server, "usage", "export", "--tenant", "nobody")
    assert (unknown.exit_code, "No such organization" in unknown.stderr) == (1, True)


def _reported(server: str) -> None:
    shown = call(server, "usage", "--by", "model,deployment", "--days", "2")
    assert shown.exit_code == 0, shown.output
    assert "1,205" in shown.stdout
    assert "tiny" in shown.stdout
    twice = call(server, "usage", "--by", "model,model", "--by", "deployment,model", "--days", "2")
    assert twice.stdout == shown.stdout
    report = json.loads(call(server, "usage", "--by", "model", "--json", "--days", "2").stdout)
    results = [result for bucket in report["data"] for result in bucket["results"]]
    assert {result["model"] for result in results} == {"tiny"}
    assert sum(result["num_model_requests"] for result in results) == 1205
    told = call(server, "usage", "--by", "proposer", "--csv", "--days", "2").stdout
    rows = list(csv.DictReader(io.StringIO(told, newline="")))
    assert {(row["proposer"], row["accepted"]) for row in rows} == {("lookup", "1205"), ("prediction", "13255")}
    wrong = call(server, "usage", "--by", "colour")
    assert (wrong.exit_code, "Invalid group_by" in wrong.stderr) == (1, True)

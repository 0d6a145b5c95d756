"""The gateway as a process: signals drain or cut it, a kill loses at most a checkpoint, ports and binds are told."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Row, select

from gateway.server import PortTaken, listen
from storage import Database
from storage.ledger import Ledger
from storage.models import ledger_entries
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.processes import Process, started
from tests.gateway.running import CHAT, chat_body, client, frames, running

pytestmark = pytest.mark.anyio
SLOW = {"gap": 0.02}
USAGE = "/v1/organization/usage/completions?start_time=0"


@asynccontextmanager
async def streaming(gateway: Process) -> AsyncIterator[AsyncIterator[str]]:
    """A stream whose first text has arrived."""
    async with gateway.http.stream("POST", CHAT, json=chat_body(stream=True)) as response:
        text = response.aiter_text()
        while '" 5"' not in await anext(text):
            pass
        yield text


async def the_settlement(home: Path) -> Row[Any]:
    db = await Database.open(f"sqlite+aiosqlite:///{home / 'specgate.db'}")
    try:
        async with db.view() as session:
            assert await Ledger(session).verify() == []
            assert await Ledger(session).unsettled() == []
            (row,) = (await session.execute(select(ledger_entries).where(ledger_entries.c.kind == "settle"))).all()
            return row
    finally:
        await db.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_gateway_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async with started(tmp_path, SLOW) as gateway:
        assert (await gateway.http.get("/readyz")).status_code == 200
        gateway.send(number)
        assert await gateway.ended() == 0


async def test_open_streams_finish(tmp_path: Path) -> None:
    async with started(tmp_path, {"gap": 0.003}) as gateway:
        async with streaming(gateway) as text:
            gateway.send(signal.SIGTERM)
            rest = "".join([part async for part in text])
        assert frames(rest)[-1] == "[DONE]"
        assert await gateway.ended() == 0
    row = await the_settlement(tmp_path)
    assert (row.outcome, row.completion_tokens) == ("completed", 400)


@pytest.mark.parametrize(
    ("drain_seconds", "signals"), [(0.3, 1), (60, 2)], ids=["at the deadline", "at a second signal"]
)
async def test_open_streams_are_cut(tmp_path: Path, drain_seconds: float, signals: int) -> None:
    async with started(tmp_path, SLOW, drain_seconds=drain_seconds) as gateway:
        async with streaming(gateway) as text:
            for _ in range(signals):
                gateway.send(signal.SIGTERM)
                await asyncio.sleep(0.1)
            rest = "".join([part async for part in text])
        assert frames(rest)[-1]["error"]["code"] == "draining"
        assert await gateway.ended() == 0
    row = await the_settlement(tmp_path)
    assert (row.outcome, row.final) == ("error", True)
    assert 6 <= row.completion_tokens == row.generated_tokens < 400


async def test_after_a_kill_the_next_start_bills_the_last_checkpoint(tmp_path: Path) -> None:
    seen = ""
    async with started(tmp_path, {"gap": 0.005}) as gateway:
        with suppress(httpx.RemoteProtocolError):
            async with streaming(gateway) as text:
                async for part in text:
                    seen += part
                    if '" 200"' in seen:
                        gateway.send(signal.SIGKILL)
        assert await gateway.ended() == -signal.SIGKILL
    async with started(tmp_path, SLOW) as again:
        assert again.told["recovered"] == 1
        assert again.told["key"] == gateway.told["key"]
        row = await the_settlement(tmp_path)
        delivered = max(i for i in range(400) if f'" {i}"' in seen) + 1
        assert row.outcome == "interrupted"
        assert delivered - 64 - 1 <= row.completion_tokens <= delivered + 1


async def test_admin_routes_have_their_own_bind(tmp_path: Path) -> None:
    """There and only there; both servers end with the process."""
    async with started(tmp_path, SLOW, host="0.0.0.0", admin_bind="127.0.0.1:0") as gateway:
        assert (await gateway.http.get(USAGE)).status_code == 404
        async with client(gateway.told["admin_url"], gateway.told["key"]) as admin:
            assert (await admin.get(USAGE)).status_code == 403, "there, for operators"
            assert (await admin.get("/v1/models")).status_code == 404
            assert (await admin.get("/readyz")).status_code == 200
        gateway.send(signal.SIGTERM)
        assert await gateway.ended() == 0


@pytest.mark.parametrize(("host", "status"), [("0.0.0.0", 404), ("::", 404), ("127.0.0.1", 403), ("localhost", 403)])
async def test_admin_routes_are_never_on_a_public_bind(tmp_path: Path, host: str, status: int) -> None:
    async with running(tmp_path, FakeEngine(), host=host) as gateway:
        assert (await gateway.http.get(USAGE)).status_code == status
        assert (await gateway.http.get("/v1/models")).status_code == 200


def test_a_taken_port_says_how_to_choose_another() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}.*already in use.*PORT="):
            listen("127.0.0.1", port)

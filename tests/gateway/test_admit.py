"""What reaches ledger and engine besides the text: labels, hashed users, salts; and what never leaves for a log."""

import io
import json
import logging
from pathlib import Path

import pytest

from gateway.telemetry import JsonLines
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("metadata", "label"),
    [
        (None, None),
        ({}, None),
        ({"workload": "edit.v2"}, "edit.v2"),
        ({"workload": "Über uns!"}, "other"),
        ({"a": "b"}, None),
    ],
)
async def test_workload_labels(tmp_path: Path, metadata: dict[str, str] | None, label: str | None) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        assert (await gateway.chat(metadata=metadata)).status_code == 200
        assert (await gateway.settled()).workload == label


async def test_users_are_hashed_and_salts_are_ours(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        for user in ("ann@example.com", "ann@example.com", "bob", None):
            assert (await gateway.chat(user=user)).status_code == 200
        hashes = [row.user_hash for row in await gateway.rows("settle")]
        assert hashes[0] == hashes[1] != hashes[2]
        assert hashes[3] is None
        assert "ann" not in str(hashes)
        salts = {request.cache_salt for request in gateway.engine.requests}
        assert len(salts) == 1
        assert len(salts.pop()) == 64


async def test_the_key_and_the_tenant_are_on_the_row(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        request_id = (await gateway.chat()).headers["x-request-id"]
        (row,) = await gateway.rows("open")
        assert (row.request_id, row.tenant_id, row.key_id) == (request_id, "default", gateway.key.split("-")[2])
        assert row.owner == gateway.parts.books.owner
        assert gateway.engine.requests[0].request_id == request_id


async def test_request_ids_are_ours_whatever_a_client_sends(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        headers = {"x-request-id": "x" * 10_000, "x-client-request-id": "y" * 10_000}
        ids = [(await gateway.http.get("/v1/models", headers=headers)).headers["x-request-id"] for _ in range(3)]
        assert len(set(ids)) == 3
        assert all(len(one) == 32 for one in ids)


async def test_logs_tell_the_route_and_the_tokens_and_nothing_of_the_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.WARNING, "httpx")
    try:
        async with running(tmp_path, FakeEngine()) as gateway:
            canary = "canary-7f3a"
            messages = [{"role": "user", "content": canary}]
            told = {
                "messages": messages,
                "prediction": canary,
                "user": canary,
                "stop": canary,
                "metadata": {"a": canary},
            }
            assert (await gateway.chat(**told, stream=True)).status_code == 200
            assert (await gateway.chat(**told, speculation=canary)).status_code == 400
            assert (await gateway.chat(**told, model=canary)).status_code == 404
            await gateway.http.post("/v1/chat/completions", content=f'{{"{canary}'.encode())
            await gateway.http.get(f"/{canary}?key={canary}", headers={"authorization": f"Bearer {canary}"})
            key = gateway.key
    finally:
        root.removeHandler(handler)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    requests = [line for line in lines if line["logger"] == "specgate.requests"]
    assert [(r["route"], r["status"]) for r in requests] == [
        ("/v1/chat/completions", 200),
        ("/v1/chat/completions", 400),
        ("/v1/chat/completions", 404),
        ("/v1/chat/completions", 400),
        ("unmatched", 404),
    ]
    first = requests[0]
    assert (first["tenant"], first["outcome"], first["prompt_tokens"], first["generated_tokens"]) == (
        "default",
        "completed",
        7,
        4,
    )
    assert {"request_id", "seconds", "headers_seconds", "queue_seconds", "prefill_seconds"} <= set(first)
    for secret in (canary, key, "Hello", " world", "Say"):
        assert secret not in written.getvalue()

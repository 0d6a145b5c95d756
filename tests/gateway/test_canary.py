"""Secrets and texts are looked for everywhere after every route was used: logs, answers, database, files, audit."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from gateway import access
from gateway.telemetry import JsonLines
from storage.models import metadata
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.route_cases import BODIES, QUERIES, SHARED, Owned, owned
from tests.gateway.running import CHAT, Gateway, chat_body, client, running

pytestmark = pytest.mark.anyio
TEXT = "canary-7f3a"
OUTPUT = "canary-output-9b1c"
STRANGER = "sk-sg-stranger0000-" + "canarykey" * 5
SAYS_ALL = {"prediction": TEXT, "user": TEXT, "stop": TEXT, "metadata": {"a": TEXT}, "safety_identifier": TEXT}
MAKES_A_KEY = re.compile(r'"value":\s*"(sk-sg-[a-z0-9]{12}-[^"]+)"')


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """All that is logged, at every level."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("specgate")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


class Asked:
    """Everything that was answered, and every key that was ever told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.keys: set[str] = set()

    def note(self, answer: httpx.Response) -> None:
        text = f"{dict(answer.headers)} {answer.text}"
        for key in MAKES_A_KEY.findall(answer.text):
            self.keys.add(key)
            text = text.replace(key, "")
        self.told.append(text)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_canary_is_found_nowhere(tmp_path: Path) -> None:
    asked = Asked()
    with logged() as log:
        async with running(tmp_path, FakeEngine(Script(words=(OUTPUT, OUTPUT)))) as gateway:
            asked.keys |= {gateway.key, gateway.operator_key, STRANGER}
            await _use_every_route(gateway, asked)
            await _say_it_all(gateway, asked)
            stored = await _stored(gateway)
            scraped = await _scraped(gateway)
        files = _files(tmp_path)
    secrets = [key.split("-", 3)[3] for key in asked.keys]
    assert len(secrets) > 40
    for canary in (TEXT, OUTPUT, *secrets):
        assert canary not in log.getvalue()
        assert canary not in stored
        assert canary not in scraped
        assert canary.encode() not in files
    for secret in secrets:
        assert not [told for told in asked.told if secret in told]
    assert "audit_log-" in stored


def _files(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.glob("specgate.db*"))


async def _use_every_route(gateway: Gateway, asked: Asked) -> None:
    """As every kind of key, also those that may not, and as a stranger."""
    for call in access.ROUTES:
        for kind in access.KINDS:
            async with gateway.parts.db.unit() as session:
                ours = await owned(session)
            asked.keys |= set(ours.keys.values())
            async with client(gateway.url, ours.keys[kind]) as http:
                asked.note(await _call(http, call, ours))
        async with client(gateway.url, STRANGER) as http:
            answer = await _call(http, call, ours)
            asked.note(answer)
            assert answer.status_code == 401


async def _call(http: httpx.AsyncClient, call: tuple[str, str], ours: Owned) -> httpx.Response:
    method, path = call
    url = re.sub(r"{([^}]+)}", lambda found: SHARED.get(found[1]) or ours.of(path, found[1]), path)
    body: dict[str, Any] = {} if method in ("GET", "DELETE") else {"json": BODIES.get(call, {})}
    return await http.request(method, url, params=QUERIES.get(call), headers={"if-match": "*"}, **body)


async def _say_it_all(gateway: Gateway, asked: Asked) -> None:
    """Canaries in every place that a client can write to, good requests and bad."""
    headers = {"x-client-request-id": TEXT, "idempotency-key": TEXT, "openai-project": TEXT}
    messages = [{"role": "user", "content": TEXT}]
    for more in ({}, {"stream": True}, {"speculation": TEXT}, {"n": TEXT}, {TEXT: 1}, {"model": TEXT}):
        body = chat_body(messages=messages, **SAYS_ALL) | more
        await gateway.http.post(CHAT, json=body, headers=headers | {"idempotency-key": TEXT + repr(more)})
    gateway.engine.script = Script(words=(OUTPUT, OUTPUT), fail_at=1)
    await gateway.chat(messages=messages, **SAYS_ALL)
    await gateway.http.post(CHAT, content=f'{{"{TEXT}'.encode())
    async with client(gateway.url, gateway.operator_key) as operator:
        for name in (STRANGER, gateway.key):
            asked.note(await operator.post("/v1/organization/projects", json={"name": f"x {name}"}))
            asked.note(await operator.post("/v1/organization/projects", json={"name": "x", name: 1}))
            asked.note(await operator.get("/v1/organization/projects", params={"after": name}))
            asked.note(await operator.get(f"/v1/organization/projects/{name}"))
            asked.note(await operator.get(f"/admin/v1/tenants/{name}"))
            asked.note(await operator.get("/v1/models", headers={"openai-organization": name}))


async def _scraped(gateway: Gateway) -> str:
    """After everything was said; public ids of keys are no labels either."""
    async with client(gateway.url, gateway.operator_key) as operator:
        text = (await operator.get("/metrics")).text
    assert "specgate_requests_total{" in text
    assert gateway.key.split("-")[2] not in text
    return text


async def _stored(gateway: Gateway) -> str:
    async with gateway.parts.db.view() as session:
        tables = [(await session.execute(select(table))).all() for table in metadata.sorted_tables]
    return repr(tables)

"""Deployments on real engine processes of this machine: made and removed through the API, mended when killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from gateway.deployments.local_engine import Engines
from gateway.serve import open_parts
from storage.deployments import FIRST
from tests.gateway.fleet_of_fakes import DEPLOYMENTS
from tests.gateway.running import client, serving, settings_for
from tests.inference.serving import MAX_MODEL_LEN, VOCAB
from tests.inference.tiny_tokenizers import byte_level_json, write_folder

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240), pytest.mark.long]
ANY = {"if-match": "*"}
START_SECONDS = 90
"""Two cores shared with other tests may take long to import torch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers with a byte-level tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    limits = {"vocab_size": VOCAB, "max_position_embeddings": MAX_MODEL_LEN, "eos_token_id": 2, "bos_token_id": 1}
    path = tmp_path_factory.mktemp("models") / "tiny"
    LlamaForCausalLM(LlamaConfig(**sizes, **limits)).save_pretrained(path)
    return write_folder(path, byte_level_json())


@asynccontextmanager
async def gateway(home: Path, folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """A client with the inference key, and one with the operator's."""
    settings = settings_for(home, model=str(folder), device="cpu")
    async with open_parts(settings, Engines(settings)) as (parts, opened), serving(parts) as url:
        keys = opened.credentials
        async with client(url, keys.inference_key) as user, client(url, keys.operator_key) as operator:
            yield user, operator


async def until(operator: httpx.AsyncClient, id: str, *phases: str) -> Any:
    async with asyncio.timeout(START_SECONDS):
        while True:
            told = (await operator.get(f"{DEPLOYMENTS}/{id}")).json()
            if told["state"]["phase"] in phases:
                return told
            await asyncio.sleep(0.05)


async def complete(user: httpx.AsyncClient, model: str, **members: Any) -> httpx.Response:
    body = {"model": model, "prompt": "abcabc", "max_tokens": 8, "temperature": 0} | members
    return await user.post("/v1/completions", json=body)


def engines_of(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()
    ]
    return [pid for pid in children if "--model-folder" in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")]


async def test_engines_are_started_mended_refused_and_ended(tmp_path: Path, folder: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "mine", "auto_map": {}}')
    write_folder(broken, byte_level_json())
    async with gateway(tmp_path / "home", folder) as (user, operator):
        await _serves(user, operator, folder)
        text = (await complete(user, "tiny")).json()["choices"][0]["text"]
        body = {"name": "other", "model": str(broken)}
        other = (await operator.post(DEPLOYMENTS, json=body)).json()["id"]
        await _change_and_kill(operator)
        assert (await complete(user, "tiny")).json()["choices"][0]["text"] == text
        await _is_refused(user, operator, other)
        mended = {"model": str(folder), "reason": "that one has code of its own"}
        await operator.patch(f"{DEPLOYMENTS}/{other}", json=mended, headers=ANY)
        await until(operator, other, "ready")
        assert (await complete(user, "other")).status_code == 200
        assert len(engines_of(os.getpid())) == 2
        await operator.delete(f"{DEPLOYMENTS}/{other}")
        async with asyncio.timeout(20):
            while len(engines_of(os.getpid())) != 1:
                await asyncio.sleep(0.05)
    assert engines_of(os.getpid()) == []


async def _serves(user: httpx.AsyncClient, operator: httpx.AsyncClient, folder: Path) -> None:
    told = await until(operator, FIRST, "ready", "failed")
    assert told["state"]["phase"] == "ready", told["state"]
    assert (told["name"], told["model"]) == ("tiny", str(folder))
    assert told["capabilities"]["context_length"] == MAX_MODEL_LEN
    why = told["capabilities"]["default_drafter"]["why"]
    assert why == "No trained drafter belongs to the family 'llama': it runs with lookup only."
    assert [one["speculation_version"] for one in told["state"]["replicas"]] == [1], "from its very start"


async def _change_and_kill(operator: httpx.AsyncClient) -> None:
    """The engine comes back with drafters that were changed since it was first started."""
    url, body = f"{DEPLOYMENTS}/{FIRST}", {"speculation": {"drafter": {"kind": "none"}}, "reason": "a test"}
    plan = (await operator.patch(f"{url}?dry_run=true", json=body, headers=ANY)).json()
    assert plan["memory"]["basis"] == "measured"
    assert plan["memory"]["replica_bytes"] == plan["memory"]["weights_bytes"] + plan["memory"]["cache_bytes"] > 0
    assert (await operator.patch(url, json=body, headers=ANY)).status_code == 200
    pid = min(engines_of(os.getpid()))
    os.kill(pid, signal.SIGKILL)
    await until(operator, FIRST, "loading", "failed")
    [replica] = (await until(operator, FIRST, "ready", "failed"))["state"]["replicas"]
    assert (replica["restarts"], replica["speculation_version"]) == (1, 2)


async def _is_refused(user: httpx.AsyncClient, operator: httpx.AsyncClient, other: str) -> None:
    state = (await until(operator, other, "failed", "ready"))["state"]
    assert state["phase"] == "failed"
    assert "brings its own Python code" in state["cause"]
    assert "Python" not in state["detail"], "which /readyz tells anybody"
    readyz = (await user.get("/readyz")).json()
    phases = {name: one["phase"] for name, one in readyz["deployments"].items()}
    assert (readyz["status"], phases) == ("ready", {"tiny": "ready", "other": "failed"})
    refused = await complete(user, "other")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")

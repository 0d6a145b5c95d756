"""A worker as its supervisor sees it: the port at once, ready when loaded, and dead soon after its parent."""

import asyncio
import json
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from inference.protocol import EngineError, GenerationRequest, TokenEvent
from tests.inference.serving import MAX_MODEL_LEN, VOCAB, ask, everything, greedy, until
from tests.inference.tiny_tokenizers import byte_level_json, write_folder
from tests.inference.worker_processes import ENVIRONMENT, START_SECONDS, command, is_alive, kill, ready, started

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
IM_END = 2
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
LONG = ask(prompt="hello", sampling=greedy(200).model_copy(update={"ignore_eos": True}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers with a real byte-level tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM  # here, since it takes a second

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_MODEL_LEN,
        eos_token_id=IM_END,
        bos_token_id=1,
    )
    path = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).save_pretrained(path)
    return write_folder(path, byte_level_json())


def generated(folder: Path, request: GenerationRequest) -> list[int]:
    """The same by transformers alone."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([request.prompt_token_ids])
    output = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=40, pad_token_id=IM_END
    )
    tokens: list[int] = output[0, prompt.shape[1] :].tolist()
    return tokens


async def test_it_says_its_port_loads_serves_and_ends_after_its_streams(folder: Path) -> None:
    async with started(command(folder)) as (process, client):
        said, waited_for = await ready(client)
        assert (said.model, said.vocab_size, said.max_model_len) == ("tiny", VOCAB, MAX_MODEL_LEN)
        assert waited_for[0].startswith("The engine waits for ")

        asked = ask(prompt_token_ids=(100, 101, 102, 103), sampling=greedy(40))
        heard = [event for event in await everything(client, asked) if isinstance(event, TokenEvent)]
        assert [token for event in heard for token in event.token_ids] == generated(folder, asked)

        stream = client.generate(LONG)
        await anext(stream)
        process.send_signal(signal.SIGTERM)
        events = [event async for event in stream]
        assert isinstance(events[-1], TokenEvent)
        assert events[-1].finish_reason == "length"
        assert await asyncio.wait_for(process.wait(), 5) == 0


async def test_it_ends_within_two_seconds_of_its_parents_pipe(folder: Path) -> None:
    """And Ctrl-C in the terminal is its parent's business."""
    async with started(command(folder, "--child")) as (process, client):
        process.send_signal(signal.SIGINT)
        await ready(client)
        stream = client.generate(LONG)
        await anext(stream)
        assert process.stdin
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 2) == 0
        with suppress(EngineError):
            await asyncio.wait_for(anext(stream), 2)
        await stream.aclose()


PARENT = """
import subprocess, sys, time
stdin = {"pipe": subprocess.PIPE, "no pipe": subprocess.DEVNULL}[sys.argv[1]]
child = subprocess.Popen(sys.argv[2:], stdin=stdin, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stdin", ["pipe", pytest.param("no pipe", marks=LINUX_ONLY)])
async def test_it_ends_within_two_seconds_of_its_parents_violent_death(folder: Path, stdin: str) -> None:
    """While it loads: importing torch must not keep it alive. Without a pipe, the kernel alone sees to it."""
    pipe = asyncio.subprocess.PIPE
    how = ["--child"] if stdin == "no pipe" else []
    argv = [sys.executable, "-c", PARENT, stdin, *command(folder), *how]
    parent = await asyncio.create_subprocess_exec(*argv, stdout=pipe, env=ENVIRONMENT)
    assert parent.stdout
    pid = int(await asyncio.wait_for(parent.stdout.readline(), START_SECONDS))
    try:
        await asyncio.sleep(1)  # by now it imports torch
        assert is_alive(pid)
        parent.kill()
        await parent.wait()
        await until(lambda: not is_alive(pid), seconds=2)
    finally:
        with suppress(ProcessLookupError):
            kill(pid)
        with suppress(ProcessLookupError):
            parent.kill()
        parent._transport.close()  # type: ignore[attr-defined]


async def test_a_folder_that_is_no_model_ends_it_with_code_one_and_a_name(tmp_path: Path) -> None:
    async with started(command(tmp_path)) as (process, client):
        start = time.monotonic()
        with pytest.raises(EngineError, match=r"tokenizer\.json is missing"):
            await ready(client)
        assert await asyncio.wait_for(process.wait(), 10) == 1
        assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--speculation", json.dumps({"lookup": {"min_ngram": 9}})], "min_ngram"),
        (["--host", "0.0.0.0"], "neither a loopback nor a private address"),
        (["--max-sequences", "0"], "max_sequences"),
    ],
)
async def test_a_bad_option_is_refused_before_anything_starts(tmp_path: Path, options: list[str], told: str) -> None:
    pipe = asyncio.subprocess.PIPE
    argv = command(tmp_path, *options)
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, env=ENVIRONMENT)
    out, err = await asyncio.wait_for(process.communicate(), START_SECONDS)
    assert (process.returncode, out) == (2, b"")
    assert told in err.decode()

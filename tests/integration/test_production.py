"""Every command of docker-compose.yml, started here: PostgreSQL and Redis are real, the model is tiny and random."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from storage.schema import head
from tests.inference.serving import MAX_MODEL_LEN, VOCAB
from tests.inference.tiny_tokenizers import byte_level_json, write_folder
from tests.integration.compose import Compose
from tests.integration.fleet import Fleet, fleet, rows
from tests.integration.served import Served, wait_for
from tests.storage.postgres import server

pytestmark = pytest.mark.timeout(180)
INFERENCE_KEY = "sk-sg-aaaaaaaaaaaa-" + "0123456789abcdef" * 4
OPERATOR_KEY = "sk-sg-bbbbbbbbbbbb-" + "fedcba9876543210" * 4
ENV = {
    "POSTGRES_PASSWORD": "not-asked",
    "REDIS_PASSWORD": "5" * 64,
    "SPECGATE_SECRET": "6" * 64,
    "SPECGATE_WORKER_SECRET": "7" * 64,
    "SPECGATE_BOOTSTRAP_KEY": INFERENCE_KEY,
    "SPECGATE_ADMIN_KEY": OPERATOR_KEY,
    "SPECGATE_METRICS_TOKEN": "8" * 64,
    "SPECGATE_MODEL": "tiny",
}
HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0}
USAGE = "/v1/organization/usage/completions"


def place_model(folder: Path) -> None:
    """A random Llama of two layers under the name that the environment file gives."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_MODEL_LEN,
        eos_token_id=2,
        bos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    write_folder(folder, byte_level_json())


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server() as postgres:
        yield postgres.create("specgate")


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, database: str) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("production")
    (folder / "models").mkdir(mode=0o700)
    place_model(folder / "models" / "models" / "tiny")
    with fleet(Compose(ENV), folder, database) as running:
        yield running


def ask(gateway: Served, key: str = INFERENCE_KEY) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=HELLO, headers=headers, timeout=30)


def used(gateway: Served) -> int:
    """Requests, as the gateway's admin port reports them."""
    headers = {"authorization": f"Bearer {OPERATOR_KEY}"}
    start = int(time.time()) - 86_400
    answer = httpx.get(f"{gateway.admin_url}{USAGE}", params={"start_time": start}, headers=headers)
    assert answer.status_code == 200, answer.text
    return sum(result["num_model_requests"] for bucket in answer.json()["data"] for result in bucket["results"])


def test_the_one_shots_do_their_work_before_the_gateways_start(production: Fleet) -> None:
    assert production.migrated == f"The database is at revision {head()}.\n"
    assert json.loads(production.model.splitlines()[-1])["folder"].endswith("/models/tiny")


def test_a_request_through_each_gateway_is_in_the_usage_of_both(production: Fleet) -> None:
    before = used(production.gateways["gateway-a"])
    texts = set()
    for gateway in production.gateways.values():
        answer = ask(gateway)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] > 0
        texts.add(answer.json()["choices"][0]["message"]["content"])
    assert len(texts) == 1, "one model behind both"
    assert [used(gateway) - before for gateway in production.gateways.values()] == [2, 2]


def test_the_public_port_has_no_admin_routes(production: Fleet) -> None:
    gateway = production.gateways["gateway-b"]
    headers = {"authorization": f"Bearer {OPERATOR_KEY}"}
    assert httpx.get(f"{gateway.url}{USAGE}?start_time=0", headers=headers).status_code == 404
    assert httpx.get(f"{gateway.admin_url}{USAGE}?start_time=0", headers=headers).status_code == 200


def test_no_secret_is_in_a_log(production: Fleet) -> None:
    for gateway in production.gateways.values():
        said = gateway.output + (gateway.home / "gateway.log").read_text()
        assert not [name for name, value in ENV.items() if name != "SPECGATE_MODEL" and value in said]


def test_one_gateway_stopped_under_load_fails_no_call(production: Fleet, database: str) -> None:
    """As a proxy that asks the other gateway when one refuses a connection or says that it drains."""
    urls = [gateway.url for gateway in production.gateways.values()]
    outcomes: list[int] = []
    ending = threading.Event()
    clients = [
        threading.Thread(target=balanced, args=(urls[i % 2 :] + urls[: i % 2], ending, outcomes)) for i in range(4)
    ]
    for client in clients:
        client.start()
    wait_for(lambda: len(outcomes) > 20, 30)
    stopped = production.gateways["gateway-b"]
    assert stopped.end(signal.SIGTERM) == 0
    after = len(outcomes)
    wait_for(lambda: len(outcomes) > after + 20, 30)
    ending.set()
    for client in clients:
        client.join(30)
    assert set(outcomes) == {200}
    query = "SELECT count(*) FILTER (WHERE kind = 'open'), count(*) FILTER (WHERE kind = 'settle') FROM ledger_entries"
    (opened, settled), *_ = rows(database, query)
    assert opened == settled
    assert int(str(opened)) >= len(outcomes)


def balanced(urls: list[str], ending: threading.Event, outcomes: list[int]) -> None:
    with httpx.Client(headers={"authorization": f"Bearer {INFERENCE_KEY}"}, timeout=30) as client:
        turns = cycle(urls)
        while not ending.is_set():
            outcomes.append(once(client, [next(turns), next(turns)]))
            next(turns)


def once(client: httpx.Client, urls: list[str]) -> int:
    """The status of the first gateway that takes it."""
    status = 0
    for url in urls:
        try:
            answer = client.post(f"{url}/v1/chat/completions", json=HELLO)
        except httpx.ConnectError:
            continue
        status = answer.status_code
        if not (status == 503 and answer.json()["error"]["code"] == "draining"):
            return status
    return status

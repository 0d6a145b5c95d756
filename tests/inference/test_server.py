"""The worker's routes over a scripted engine: who may ask, what is refused, and what is said meanwhile."""

import asyncio
import threading

import httpx
import pytest

from inference.config import SpeculationConfig
from inference.protocol import PROTOCOL_VERSION, Accepted, EngineError, Failure, WorkerLoad, WorkerReady
from inference.server.outbox import LIMIT
from inference.server.process import bind
from inference.server.service import Progress, ServedEngine, Service
from tests.inference.serving import (
    HEADERS,
    MAX_MODEL_LEN,
    ScriptedWorker,
    ask,
    client_of,
    event,
    everything,
    listening,
    served,
    tokenizer,
    until,
)

pytestmark = pytest.mark.anyio
ROUTES = [
    ("POST", "/generate"),
    ("DELETE", "/requests/r"),
    ("GET", "/readyz"),
    ("GET", "/load"),
    ("GET", "/metrics"),
    ("PUT", "/speculation"),
]


def ready(worker: ScriptedWorker) -> Service:
    return Service(waiting_for=None, engine=served(worker))


async def fetch(method: str, url: str, headers: dict[str, str] = HEADERS, content: bytes = b"") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.request(method, url, headers=headers, content=content)


async def test_every_route_but_livez_asks_for_the_secret() -> None:
    async with listening(ready(ScriptedWorker())) as url:
        for method, path in ROUTES:
            for secret in ("Bearer wrong", "Bearer", "", "Basic x", "Bearer \u00e9"):
                headers = HEADERS | {"authorization": secret}
                response = await fetch(method, url + path, {k: v.encode("latin-1") for k, v in headers.items()})  # type: ignore[misc]
                assert (response.status_code, response.json()["code"]) == (401, "wrong_secret")
        assert (await fetch("GET", url + "/livez", {})).json() == {"alive": True}


async def test_another_protocol_version_is_refused_with_both_numbers() -> None:
    async with listening(ready(ScriptedWorker())) as url:
        for spoken in (str(PROTOCOL_VERSION + 1), "", "none"):
            headers = HEADERS | {"x-specgate-protocol": spoken}
            for method, path in ROUTES:
                response = await fetch(method, url + path, headers)
                expected = (200, None) if path == "/metrics" else (400, "protocol_mismatch")
                code = response.json()["code"] if response.status_code != 200 else None
                assert (response.status_code, code) == expected
        told = (await fetch("GET", url + "/load", HEADERS | {"x-specgate-protocol": "7"})).json()["message"]
        assert f"protocol {PROTOCOL_VERSION}," in told
        assert "protocol 7:" in told


async def test_a_request_streams_its_events_a_line_each() -> None:
    worker = ScriptedWorker(event(0, "a\u2028b"), event(1, "é\n", finish="stop"))
    async with listening(ready(worker)) as url:
        response = await fetch("POST", url + "/generate", content=ask().model_dump_json().encode())
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.content.count(b"\n") == 3
    assert response.content.splitlines()[0] == b'{"type":"accepted","prompt_tokens":1,"prediction_tokens":0}'


async def test_what_the_engine_gets_is_the_prompt_in_tokens() -> None:
    worker = ScriptedWorker(event(0, finish="stop"))
    async with client_of(worker) as client:
        assert (await everything(client, ask(prompt="hello")))[0] == Accepted(prompt_tokens=1)
    assert [seq.tokens for [seq] in worker.submitted] == [tokenizer().encode("hello")]


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"prompt": "a" * MAX_MODEL_LEN}, 400, "context_length_exceeded", "prompt"),
        ({"prompt_token_ids": (999_999,)}, 400, "invalid_token_id", "prompt"),
        ({"prediction": "a" * 5 * MAX_MODEL_LEN}, 400, "prediction_too_long", "prediction"),
        ({"forced_output": "x"}, 400, "forced_output_refused", "forced_output"),
    ],
)
async def test_a_refused_request_never_reaches_the_engine(
    fields: dict[str, object], status: int, code: str, param: str
) -> None:
    worker = ScriptedWorker(event(0, finish="stop"))
    async with client_of(worker) as client:
        with pytest.raises(EngineError) as error:
            await everything(client, ask(**fields))
        failure = error.value.failure
        assert (failure.status, failure.code, failure.param) == (status, code, param)
        assert worker.submitted == []
        assert len(await everything(client, ask())) == 2


async def test_a_refusal_has_its_own_http_status_and_is_one_line() -> None:
    async with listening(ready(ScriptedWorker())) as url:
        response = await fetch("POST", url + "/generate", content=b"{}")
        assert (response.status_code, response.content.count(b"\n")) == (400, 1)
        assert Failure.model_validate_json(response.content).code == "invalid_request"
        assert (await fetch("GET", url + "/nowhere")).json()["code"] == "no_such_route"
        assert (await fetch("PUT", url + "/generate")).status_code == 405


async def test_a_request_id_that_is_running_is_refused_until_it_has_ended() -> None:
    worker = ScriptedWorker()
    async with client_of(worker) as client:
        first = client.generate(ask("same"))
        await anext(first)
        with pytest.raises(EngineError) as error:
            await everything(client, ask("same"))
        assert (error.value.failure.status, error.value.failure.code) == (409, "duplicate_request")
        worker.say("same", event(0, finish="stop"))
        assert (await anext(first)).type == "tokens"
        again = client.generate(ask("same"))
        assert (await anext(again)).type == "accepted"
        await again.aclose()
        await first.aclose()


async def test_a_refused_request_id_is_free_again() -> None:
    async with client_of(ScriptedWorker(event(0, finish="stop"))) as client:
        with pytest.raises(EngineError):
            await everything(client, ask("same", prompt=""))
        assert len(await everything(client, ask("same"))) == 2


async def test_a_failure_of_the_engine_ends_the_stream() -> None:
    lost = Failure(status=500, code="engine_failed", message="it broke")
    async with client_of(ScriptedWorker(event(0), lost)) as client:
        events = client.generate(ask())
        assert [(await anext(events)).type for _ in range(2)] == ["accepted", "tokens"]
        with pytest.raises(EngineError, match="it broke"):
            await anext(events)


async def test_delete_aborts_and_the_stream_ends_in_its_own_words() -> None:
    worker = ScriptedWorker()
    async with client_of(worker) as client:
        events = client.generate(ask("a/b c"))
        await anext(events)
        await client.abort("a/b c")
        assert worker.aborted == ["a/b c"]
        worker.say("a/b c", event(0, finish="abort"))
        assert [e.finish_reason async for e in events if e.type == "tokens"] == ["abort"]
        assert worker.aborted == ["a/b c"]
        await client.abort("never seen")


async def test_an_abort_during_the_checks_follows_the_request_into_the_engine() -> None:
    worker, checked, go = ScriptedWorker(), threading.Event(), threading.Event()
    service = ready(worker)
    assert service.engine
    admit = service.engine.intake.admit

    class SlowIntake:
        def admit(self, request: object) -> object:
            checked.set()
            assert go.wait(10)
            return admit(request)  # type: ignore[arg-type]

    service.engine = ServedEngine(SlowIntake(), worker, service.engine.ready)  # type: ignore[arg-type]
    async with listening(service) as url, httpx.AsyncClient(trust_env=False, headers=HEADERS) as http:
        asked = http.build_request("POST", url + "/generate", content=ask().model_dump_json())
        answer = asyncio.create_task(http.send(asked, stream=True))
        await until(checked.is_set)
        assert (await http.delete(url + "/requests/r")).status_code == 204
        assert worker.aborted == []
        go.set()
        response = await answer
        await until(lambda: worker.aborted == ["r"])
        assert len(worker.submitted) == 1
        await response.aclose()


async def test_a_reader_that_never_reads_is_given_up_and_the_engine_never_waits() -> None:
    worker = ScriptedWorker()
    async with client_of(worker) as client:
        events = client.generate(ask())
        await anext(events)
        for i in range(20):
            worker.say("r", *(event(LIMIT * i + j, "x" * 2000) for j in range(LIMIT)))
            if worker.aborted:
                break
        await until(lambda: worker.aborted == ["r"])
        await events.aclose()


async def test_while_the_model_loads_readyz_says_what_it_waits_for() -> None:
    go, told = threading.Event(), threading.Event()
    worker = ScriptedWorker(event(0, finish="stop"))

    def build(progress: Progress) -> ServedEngine:
        progress("the weights")
        told.set()
        assert go.wait(10)
        return served(worker)

    service = Service()
    service.start_loading(build)
    async with listening(service) as url:
        await until(told.is_set)
        response = await fetch("GET", url + "/readyz")
        assert (response.status_code, response.json()) == (503, {"waiting_for": "the weights"})
        assert (await fetch("GET", url + "/livez", {})).status_code == 200
        for method, path in ROUTES:
            response = await fetch(method, url + path)
            assert response.status_code == (404 if path == "/requests/r" else 503)
        go.set()
        await until(lambda: service.engine is not None)
        response = await fetch("GET", url + "/readyz")
        assert WorkerReady.model_validate_json(response.content).max_model_len == MAX_MODEL_LEN


async def test_a_broken_engine_is_named_by_readyz_and_takes_no_request() -> None:
    worker = ScriptedWorker()
    async with listening(ready(worker)) as url:
        worker.failure = "the engine stopped on RuntimeError"
        response = await fetch("GET", url + "/readyz")
        assert (response.status_code, response.json()) == (503, {"failure": worker.failure})
        response = await fetch("POST", url + "/generate", content=ask().model_dump_json().encode())
        assert (response.status_code, response.json()["code"]) == (503, "engine_failed")


async def test_a_model_that_cannot_be_loaded_is_named() -> None:
    def build(progress: Progress) -> ServedEngine:
        raise ValueError("no such weights")

    service = Service()
    service.start_loading(build)
    await until(lambda: service.failure is not None)
    assert service.failure == "the model could not be loaded: no such weights"


async def test_a_draining_worker_takes_no_request() -> None:
    service = ready(ScriptedWorker())
    async with listening(service) as url:
        service.draining = True
        response = await fetch("POST", url + "/generate", content=ask().model_dump_json().encode())
        assert (response.status_code, response.json()["code"]) == (503, "engine_draining")
        assert (await fetch("GET", url + "/readyz")).json() == {"waiting_for": "the last requests to end"}


async def test_load_and_metrics_say_the_same() -> None:
    async with client_of(ScriptedWorker()) as client, listening(ready(ScriptedWorker())) as url:
        load = await client.load()
        lines = (await fetch("GET", url + "/metrics")).text.splitlines()
    blocks = {"free_blocks": 3, "num_blocks": 4}
    expected = {"waiting": 1, "running": 2, **blocks, "passes": 5, "preemptions": 8, "config_version": 6}
    assert load == WorkerLoad.model_validate({**expected, "drafter_faults": {"lookup": 7}})
    assert "specgate_engine_waiting_sequences 1" in lines
    assert "specgate_engine_passes_total 5" in lines
    assert "specgate_engine_preemptions_total 8" in lines
    assert 'specgate_engine_drafter_faults_total{proposer="lookup"} 7' in lines
    assert "specgate_engine_open_requests 0" in lines


async def test_the_drafter_configuration_is_replaced_as_a_whole() -> None:
    worker, config = ScriptedWorker(), SpeculationConfig(version=2, enabled=False)
    async with listening(ready(worker)) as url:
        response = await fetch("PUT", url + "/speculation", content=config.model_dump_json().encode())
        assert (response.status_code, SpeculationConfig.model_validate_json(response.content)) == (200, config)
        response = await fetch("PUT", url + "/speculation", content=b'{"lookup": {"min_ngram": 9}}')
        assert (response.status_code, response.json()["code"]) == (400, "invalid_speculation")
    assert worker.configs == [config]


async def test_a_configuration_that_cannot_be_run_is_answered_and_the_client_hears_why() -> None:
    worker = ScriptedWorker()
    async with client_of(worker) as client:
        await client.set_speculation(SpeculationConfig(version=9))
        worker.refusal_of_configs = MemoryError("no room beside the model")
        with pytest.raises(EngineError, match="MemoryError: no room") as refused:
            await client.set_speculation(SpeculationConfig(version=10))
        assert (refused.value.failure.status, refused.value.failure.code) == (409, "configuration_refused")
        worker.refusal_of_configs = EngineError(409, "stale_configuration", "Version 9 is older.")
        with pytest.raises(EngineError, match="Version 9 is older"):
            await client.set_speculation(SpeculationConfig(version=9))
    assert [config.version for config in worker.configs] == [9, 10, 9]


async def test_a_fault_in_the_checks_is_answered_and_its_text_stays_out_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class BrokenIntake:
        def admit(self, request: object) -> None:
            raise KeyError(" ".join(("own", "words")))  # the trace shows this line, not the value

    service = ready(ScriptedWorker())
    assert service.engine
    service.engine = ServedEngine(BrokenIntake(), service.engine.worker, service.engine.ready)  # type: ignore[arg-type]
    async with listening(service) as url:
        response = await fetch("POST", url + "/generate", content=ask().model_dump_json().encode())
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "KeyError in intake" in caplog.text
    assert "own" + " words" not in caplog.text + response.text
    assert service.open_requests == {}


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8", "::"])
async def test_a_worker_is_never_bound_where_the_world_comes_by(host: str) -> None:
    with pytest.raises(ValueError, match="neither a loopback nor a private address"):
        bind(host, 0)

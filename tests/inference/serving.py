"""A worker's HTTP face on a real loopback socket, in this process: over a scripted engine, or the real one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

import torch

from inference.client import HttpInferenceClient
from inference.config import EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.engine.worker import Worker
from inference.protocol import (
    PROTOCOL_VERSION,
    Accepted,
    Failure,
    FinishReason,
    GenerationRequest,
    SamplingParams,
    TokenEvent,
    TokenUsage,
    WorkerLoad,
    WorkerReady,
)
from inference.sequence import Batch, Sequence
from inference.server.app import create_app
from inference.server.intake import Intake, Limits
from inference.server.process import QuietServer, bind, server_config
from inference.server.service import EngineWorker, ServedEngine, Service
from inference.speculation.spelling import spell
from inference.tokenizer import Tokenizer
from inference.tokenizer.chat_template import ChatTemplate
from tests.fakes import FakeModel
from tests.inference.tiny_tokenizers import CHATML, byte_level_json

SECRET = "the workers' own"
MAX_MODEL_LEN = 256
VOCAB = 274
"""Of the byte-level test tokenizer."""
HEADERS = {"authorization": f"Bearer {SECRET}", "x-specgate-protocol": str(PROTOCOL_VERSION)}
USAGE = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)


class ScriptedWorker:
    """An engine that says what the test tells it to, on a thread that is not the event loop's."""

    def __init__(self, *script: TokenEvent | Failure) -> None:
        self._script = script
        self._deliver: dict[str, Callable[[TokenEvent | Failure], None]] = {}
        self.submitted: list[list[Sequence]] = []
        self.aborted: list[str] = []
        self.configs: list[SpeculationConfig] = []
        self.refusal_of_configs: Exception | None = None
        self.failure: str | None = None
        self.refused: Failure | None = None

    def submit(self, sequences: list[Sequence], deliver: Callable[[TokenEvent | Failure], None]) -> None:
        self.submitted.append(sequences)
        self._deliver[sequences[0].request_id] = deliver
        if self._script:
            self.say(sequences[0].request_id, *self._script)

    def say(self, request_id: str, *events: TokenEvent | Failure) -> None:
        deliver = self._deliver[request_id]
        thread = threading.Thread(target=lambda: [deliver(event) for event in events])
        thread.start()
        thread.join()

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def set_speculation(self, config: SpeculationConfig) -> Future[None]:
        self.configs.append(config)
        applied: Future[None] = Future()
        if self.refusal_of_configs:
            applied.set_exception(self.refusal_of_configs)
        else:
            applied.set_result(None)
        return applied

    def refusal(self, cache_salt: str) -> Failure | None:
        return self.refused

    def load(self) -> WorkerLoad:
        return WorkerLoad(
            waiting=1,
            running=2,
            free_blocks=3,
            num_blocks=4,
            passes=5,
            preemptions=8,
            config_version=6,
            drafter_faults={"lookup": 7},
        )

    def close(self) -> None: ...


class GatedModel(FakeModel):
    """Takes a pass only when a test lets it, so that the test can act between two steps."""

    def __init__(self) -> None:
        super().__init__(vocab_size=VOCAB, num_blocks=128, block_size=4)
        self._gate = threading.Semaphore(0)
        self.batches: list[Batch] = []

    def let(self, passes: int) -> None:
        for _ in range(passes):
            self._gate.release()

    def forward(self, batch: Batch) -> torch.Tensor:
        self.batches.append(batch)
        assert self._gate.acquire(timeout=20)
        return super().forward(batch)


def tokenizer() -> Tokenizer:
    return Tokenizer(byte_level_json(), ChatTemplate(CHATML, {}))


def served(worker: EngineWorker, *, allow_forced_output: bool = False) -> ServedEngine:
    limits = Limits(MAX_MODEL_LEN, VOCAB, allow_forced_output)
    ready = WorkerReady(model="tiny", max_model_len=MAX_MODEL_LEN, vocab_size=VOCAB, fingerprint="fp_test")
    return ServedEngine(Intake(tokenizer(), spell, limits), worker, ready)


@contextmanager
def real_worker(model: FakeModel, **sizes: int) -> Iterator[Worker]:
    """The real engine and its thread over a fake model. End of text is no token, so requests run to their length."""
    fixed = {"block_size": 4, "num_blocks": 128, "max_model_len": MAX_MODEL_LEN}
    config = EngineConfig.model_validate({**fixed, "max_batch_tokens": 16, **sizes})
    worker = Worker(Engine(model, config, frozenset({10_000})))
    worker.start()
    try:
        yield worker
    finally:
        worker.close()


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator[str]:
    """The base URL of a running server."""
    listener = bind("127.0.0.1", 0)
    server = QuietServer(server_config(create_app(service, SECRET)))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task


@asynccontextmanager
async def client_of(worker: EngineWorker, **options: bool) -> AsyncIterator[HttpInferenceClient]:
    async with listening(Service(waiting_for=None, engine=served(worker, **options))) as url:
        client = HttpInferenceClient(url, SECRET)
        try:
            yield client
        finally:
            await client.aclose()


def ask(request_id: str = "r", prompt: str = "hello", **fields: object) -> GenerationRequest:
    if "messages" not in fields and "prompt_token_ids" not in fields:
        fields["prompt"] = prompt
    return GenerationRequest.model_validate({"request_id": request_id, **fields})


def greedy(max_tokens: int, n: int = 1) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, n=n)


def event(seq_no: int, text: str = "x", choice: int = 0, finish: FinishReason | None = None) -> TokenEvent:
    usage = USAGE if finish else None
    return TokenEvent(choice=choice, seq_no=seq_no, token_ids=(7,), text=text, finish_reason=finish, usage=usage)


async def everything(client: HttpInferenceClient, request: GenerationRequest) -> list[Accepted | TokenEvent]:
    async with asyncio.timeout(20):
        return [event async for event in client.generate(request)]


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)

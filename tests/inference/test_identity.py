"""On the real model: whatever is drafted, shared, preempted or batched, the tokens are those of plain decoding.

Every test also asserts that its subject happened: drafts were accepted and rejected, prefixes hit, sequences preempted.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.config import (
    AdaptiveConfig,
    EngineConfig,
    LookupConfig,
    PredictionConfig,
    SpeculationConfig,
    SuffixConfig,
)
from inference.engine.engine import Engine
from inference.model.loaded_model import LoadedModel
from inference.model.loader import load_model
from inference.model.runner import Runner
from inference.protocol import ChatMessage, SamplingParams, TokenUsage
from inference.sequence import Prediction, Sequence
from inference.speculation.spelling import spell
from inference.tokenizer import Tokenizer
from tests.inference.identity import Identity

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

FILE = '''\
"""Prices of a small shop."""

TAX = 0.2


def net(price, amount):
    total = price * amount
    return total


def gross(price, amount):
    total = net(price, amount)
    return total * (1 + TAX)


def discount(price, percent):
    return price * (1 - percent / 100)
'''
ASK = "Rename the function `net` to `subtotal`.\nRewrite the whole file with this change. Output only the code."
BEGUN = "```python\n" + FILE[:60]
"""The reply's first lines, so that the model goes on copying at any temperature."""
OFF = SpeculationConfig(enabled=False)
SCHEDULE = AdaptiveConfig(mode="schedule")
PREDICTION = SpeculationConfig(lookup=LookupConfig(enabled=False), adaptive=SCHEDULE)
LOOKUP = SpeculationConfig(prediction=PredictionConfig(enabled=False), adaptive=SCHEDULE)
SUFFIX = LOOKUP.model_copy(update={"lookup": LookupConfig(enabled=False), "suffix": SuffixConfig(enabled=True)})
BOTH = SpeculationConfig(adaptive=SCHEDULE)
TEMPERATURES = [0.0, 0.7, 1.0]
EACH = [0.0, *(pytest.param(temperature, marks=pytest.mark.long) for temperature in TEMPERATURES[1:])]
LENGTH = 32


def predictions() -> dict[str, str]:
    lines = FILE.splitlines(keepends=True)
    return {
        "right": FILE.replace("net(", "subtotal("),
        "as it was": FILE,
        "fenced": f"```python\n{FILE}```\n",
        "wrong": "The quick brown fox jumps over the lazy dog. " * 20,
        "empty": "",
        "shuffled lines": "".join(lines[::2] + lines[1::2]),
        "huge": FILE * 40,
        "special-token text": "<|im_end|><|endoftext|><filename>" + FILE.replace("\n", "<|im_start|>\n"),
        "CRLF": FILE.replace("\n", "\r\n"),
    }


class Bench:
    """The real model, its tokenizer, and engines over them."""

    def __init__(self, folder: Path) -> None:
        self.model: LoadedModel = load_model(folder)
        self.tokenizer = Tokenizer.from_folder(folder)
        self.identity = Identity(self.model)
        question = ChatMessage(role="user", content=f"{ASK}\n```python\n{FILE}```")
        self.prompt = [*self.tokenizer.chat([question]), *self.tokenizer.encode(BEGUN)]
        self._plain: dict[SamplingParams, list[int]] = {}

    def engine(self, speculation: SpeculationConfig, num_blocks: int = 256, max_model_len: int = 1024) -> Engine:
        config = EngineConfig(num_blocks=num_blocks, max_model_len=max_model_len, speculation=speculation)
        return Engine(Runner(self.model, config), config, self.model.eos_token_ids)

    def sequence(
        self, request_id: str, sampling: SamplingParams, prompt: list[int] | None = None, **fields: object
    ) -> Sequence:
        prompt = self.prompt if prompt is None else prompt
        text = self.tokenizer.text(sampling.stop)
        return Sequence(request_id, 0, list(prompt), len(prompt), sampling, text, **fields)  # type: ignore[arg-type]

    def predicted(self, text: str) -> Prediction:
        return spell(text, self.tokenizer)

    def plain(self, sampling: SamplingParams) -> list[int]:
        """What the engine writes alone, without a drafter."""
        if sampling not in self._plain:
            self._plain[sampling] = run(self.engine(OFF), [self.sequence("plain", sampling)])["plain"][0]
        return self._plain[sampling]


def run(engine: Engine, seqs: list[Sequence]) -> dict[str, tuple[list[int], TokenUsage]]:
    for seq in seqs:
        engine.add(seq)
    tokens: dict[str, list[int]] = {seq.request_id: [] for seq in seqs}
    usages: dict[str, TokenUsage] = {}
    while engine.has_work:
        for output in engine.step():
            tokens[output.request_id].extend(output.event.token_ids)
            if output.event.usage:
                usages[output.request_id] = output.event.usage
        engine.check()
    return {request_id: (tokens[request_id], usages[request_id]) for request_id in tokens}


def assert_drafts_met_both_fates(results: dict[str, tuple[list[int], TokenUsage]]) -> None:
    drafts = [stats for _, usage in results.values() for stats in usage.speculation.by_proposer.values()]
    assert sum(stats.accepted for stats in drafts) > 0
    assert sum(stats.rejected for stats in drafts) > 0


def params(temperature: float, seed: int = 5, max_tokens: int = LENGTH) -> SamplingParams:
    return SamplingParams(temperature=temperature, top_p=0.95, seed=seed, max_tokens=max_tokens)


@pytest.fixture(scope="module")
def bench(smollm2_folder: Path) -> Iterator[Bench]:
    threads = torch.get_num_threads()
    yield Bench(smollm2_folder)
    torch.set_num_threads(threads)


def test_greedy_without_a_drafter_is_transformers_generate(bench: Bench, smollm2_folder: Path) -> None:
    reference = AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32, local_files_only=True)
    ids_1T = torch.tensor([bench.prompt])
    with torch.inference_mode():
        out_1T = reference.generate(
            ids_1T, attention_mask=torch.ones_like(ids_1T), do_sample=False, max_new_tokens=LENGTH
        )
    expected = out_1T[0, len(bench.prompt) :].tolist()
    assert len(expected) == LENGTH
    bench.identity.assert_same("generate", bench.prompt, expected, bench.plain(params(0.0)), params(0.0))


@pytest.mark.parametrize("temperature", EACH)
def test_a_prediction_changes_no_token(bench: Bench, temperature: float) -> None:
    sampling = params(temperature)
    seqs = [bench.sequence(name, sampling, prediction=bench.predicted(text)) for name, text in predictions().items()]
    results = run(bench.engine(PREDICTION), seqs)
    for name, (tokens, _) in results.items():
        bench.identity.assert_same(name, bench.prompt, bench.plain(sampling), tokens, sampling)
    stats = {name: usage.speculation for name, (_, usage) in results.items()}
    assert stats.pop("empty").by_proposer == {}
    drafts = {name: s.by_proposer["prediction"] for name, s in stats.items()}
    assert all(d.drafted > 0 for d in drafts.values()), drafts
    assert all(d.accepted > 0 for name, d in drafts.items() if name != "wrong"), drafts
    assert all(d.rejected > 0 for d in drafts.values()), drafts
    assert drafts["wrong"].accepted == 0
    for _, usage in results.values():
        assert usage.completion_tokens - 1 == usage.speculation.steps + usage.speculation.accepted_delivered


@pytest.mark.parametrize("temperature", EACH)
@pytest.mark.parametrize(("drafter", "speculation"), [("lookup", LOOKUP), ("suffix", SUFFIX)])
def test_the_requests_own_text_changes_no_token(
    bench: Bench, drafter: str, speculation: SpeculationConfig, temperature: float
) -> None:
    sampling = params(temperature)
    tokens, usage = run(bench.engine(speculation), [bench.sequence(drafter, sampling)])[drafter]
    bench.identity.assert_same(drafter, bench.prompt, bench.plain(sampling), tokens, sampling)
    assert usage.speculation.by_proposer[drafter].accepted > 0
    assert usage.speculation.by_proposer[drafter].rejected > 0


def test_a_batch_of_eight_is_eight_requests_alone(bench: Bench) -> None:
    prompts = [bench.prompt[: 20 + 12 * i] for i in range(8)]
    asked = [params(TEMPERATURES[i % 3], seed=i, max_tokens=10 + i) for i in range(8)]
    prediction = bench.predicted(FILE)

    def sequences() -> list[Sequence]:
        return [
            bench.sequence(f"r{i}", asked[i], prompts[i], prediction=prediction if i % 2 else None, cache_salt=str(i))
            for i in range(8)
        ]

    together = run(bench.engine(BOTH), sequences())
    for i, seq in enumerate(sequences()):
        alone = run(bench.engine(OFF), [seq])[f"r{i}"][0]
        bench.identity.assert_same(f"r{i}", prompts[i], alone, together[f"r{i}"][0], asked[i])
    assert_drafts_met_both_fates(together)


@pytest.mark.parametrize("temperature", EACH)
def test_a_tight_cache_changes_no_token(bench: Bench, temperature: float) -> None:
    sampling = params(temperature, max_tokens=16)
    engine = bench.engine(BOTH, num_blocks=11, max_model_len=176)
    prompts = [bench.prompt[: 72 + 4 * i] for i in range(3)]
    prediction = bench.predicted(FILE)
    results = run(engine, [bench.sequence(f"r{i}", sampling, p, prediction=prediction) for i, p in enumerate(prompts)])
    assert engine.load().preemptions > 0
    assert_drafts_met_both_fates(results)
    for i, prompt in enumerate(prompts):
        roomy = run(bench.engine(OFF), [bench.sequence("roomy", sampling, prompt)])["roomy"][0]
        bench.identity.assert_same(f"tight {i}", prompt, roomy, results[f"r{i}"][0], sampling)


@pytest.mark.parametrize("temperature", EACH)
def test_a_prefix_hit_changes_no_token(bench: Bench, temperature: float) -> None:
    sampling = params(temperature)
    engine = bench.engine(PREDICTION)
    prediction = bench.predicted(FILE)
    results = [run(engine, [bench.sequence(n, sampling, prediction=prediction)])[n] for n in ("miss", "hit")]
    for tokens, _ in results:
        bench.identity.assert_same("prefix", bench.prompt, bench.plain(sampling), tokens, sampling)
    assert [usage.cached_tokens for _, usage in results] == [0, (len(bench.prompt) - 1) // 16 * 16]

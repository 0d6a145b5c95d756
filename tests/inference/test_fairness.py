"""Nobody's flood takes another's turn: rows and places go by salt, and a queue is bounded by time."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.config import EngineConfig, SpeculationConfig
from inference.engine.engine import Engine
from inference.engine.fairness import fair_shares, gives_way
from inference.engine.queue_limit import SaltQueue, refusal
from inference.engine.scheduler import Scheduler
from inference.protocol import SamplingParams
from inference.sequence import Batch, Sequence
from tests.fakes import FakeModel, make_sequence, plain_decode

STEP = 0.05
CONFIG = EngineConfig(
    block_size=4,
    num_blocks=256,
    max_model_len=128,
    max_batch_tokens=64,
    max_sequences=8,
    max_queue_seconds=1000.0,
    speculation=SpeculationConfig(enabled=False),
)


def test_what_one_leaves_goes_to_the_others() -> None:
    assert fair_shares({"a": 100, "b": 10, "c": 100}, 64) == {"a": 27, "b": 10, "c": 27}
    assert fair_shares({"a": 1, "b": 0}, 64) == {"a": 1, "b": 0}
    assert fair_shares({"first": 5, "second": 5, "third": 5}, 2) == {"first": 1, "second": 1, "third": 0}


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 50), max_size=8), st.integers(0, 120))
def test_shares_are_max_min(wanted: dict[str, int], total: int) -> None:
    shares = fair_shares(wanted, total)
    assert sum(shares.values()) == min(total, sum(wanted.values()))
    assert all(shares[s] <= wanted[s] for s in wanted)
    unmet = [shares[s] for s in wanted if shares[s] < wanted[s]]
    assert all(max(shares.values()) <= share + 1 for share in unmet), "somebody got more than one that wanted more"


def test_a_place_is_given_only_where_that_makes_it_more_even() -> None:
    assert gives_way({"flood": 8}, to="quiet") == "flood"
    assert gives_way({"flood": 5, "quiet": 3}, to="quiet") == "flood"
    assert gives_way({"flood": 4, "quiet": 4}, to="quiet") is None
    assert gives_way({"flood": 4, "quiet": 3}, to="quiet") is None
    assert gives_way({"a": 1, "b": 1}, to="c") is None
    assert gives_way({}, to="a") is None


class Clock:
    """Time that passes with each pass of the model, by a fixed step."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed(FakeModel):
    def __init__(self, clock: Clock) -> None:
        super().__init__(num_blocks=CONFIG.num_blocks)
        self._clock = clock

    def forward(self, batch: Batch):  # type: ignore[no-untyped-def]
        self._clock.now += STEP
        return super().forward(batch)


def simulate(arrivals: list[tuple[float, Callable[[], Sequence]]]) -> dict[str, list[float]]:
    """Salt → queue waits of its requests, in seconds of the fixed-step clock."""
    clock = Clock()
    engine = Engine(Timed(clock), CONFIG, frozenset({10_000}), clock=clock)
    due = sorted(arrivals, key=lambda arrival: arrival[0])
    salts: dict[str, str] = {}
    waits: dict[str, list[float]] = {}
    while due or engine.has_work:
        while due and (due[0][0] <= clock.now or not engine.has_work):
            at, make = due.pop(0)
            clock.now = max(clock.now, at)
            seq = make()
            salts[seq.request_id] = seq.cache_salt
            engine.add(seq)
        for output in engine.step():
            if output.event.usage:
                waits.setdefault(salts[output.request_id], []).append(output.event.usage.timings.queue)
        engine.check()
    return waits


def traffic(
    salt: str, rate: float, seconds: float, seed: int, prompt: int
) -> list[tuple[float, Callable[[], Sequence]]]:
    """Poisson arrivals."""
    draw = random.Random(seed)
    arrivals, at = [], 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        tokens = [draw.randrange(64) for _ in range(prompt)]
        request_id = f"{salt}-{len(arrivals)}"
        sampling = SamplingParams(temperature=0, max_tokens=20)

        arrivals.append((at, partial(make_sequence, tokens, request_id, sampling=sampling, cache_salt=salt)))
    return arrivals


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def test_a_twentyfold_flood_costs_the_victim_no_more_than_a_step() -> None:
    """The victim asks as before; the flood asks twenty times as often, with longer prompts, more than can be served."""
    victim = traffic("victim", rate=1.0, seconds=120, seed=1, prompt=20)
    flood = traffic("flood", rate=20.0, seconds=120, seed=2, prompt=60)
    quiet = simulate(victim)["victim"]
    both = simulate([*victim, *flood])
    assert len(quiet) == len(both["victim"]) > 90
    assert p95(both["flood"]) > 20.0, "the flood was no flood"
    assert p95(both["victim"]) <= 1.5 * p95(quiet) + STEP


def test_giving_way_changes_no_token() -> None:
    model = FakeModel(num_blocks=CONFIG.num_blocks)
    engine = Engine(model, CONFIG, frozenset({10_000}))
    sampling = SamplingParams(temperature=0.7, seed=4, max_tokens=20)
    seqs = [make_sequence([i] * 9, f"f{i}", sampling=sampling, cache_salt="flood") for i in range(12)]
    expected = {s.request_id: plain_decode(model, s) for s in seqs}
    for seq in seqs:
        engine.add(seq)
    said: dict[str, list[int]] = {}
    for step in range(500):
        if step == 5:
            late = make_sequence([50] * 9, "late", sampling=sampling, cache_salt="quiet")
            expected["late"] = plain_decode(model, late)
            engine.add(late)
        for output in engine.step():
            said.setdefault(output.request_id, []).extend(output.event.token_ids)
        if not engine.has_work:
            break
    assert engine.load().preemptions >= 1
    assert said == expected


@pytest.mark.parametrize("salts", [["a"] * 9, [f"s{i}" for i in range(9)]], ids=["own", "fleet"])
def test_what_waited_too_long_is_told_whose_queue_it_was(salts: list[str]) -> None:
    clock = Clock()
    config = CONFIG.model_copy(update={"max_queue_seconds": 0.5})
    engine = Engine(Timed(clock), config, frozenset({10_000}), clock=clock)
    sampling = SamplingParams(temperature=0, max_tokens=100)
    for i, salt in enumerate(salts):
        engine.add(make_sequence([i], f"r{i}", sampling=sampling, cache_salt=salt))
    refused = {}
    while not refused:
        engine.step()
        engine.check()
        refused = engine.refuse_overdue()
    assert clock.now == pytest.approx(0.5, abs=STEP)
    assert list(refused) == ["r8"]
    assert (refused["r8"].status, refused["r8"].code) == ((429 if salts[0] == "a" else 503), "queue_full")
    engine.check()


def test_a_new_request_behind_an_old_queue_is_refused_at_once() -> None:
    assert refusal(None, 60) is None
    assert refusal(SaltQueue(oldest_wait=29, running=8), 60) is None
    refused = refusal(SaltQueue(oldest_wait=30, running=8), 60)
    assert refused is not None
    assert refused.status == 429
    full = refusal(SaltQueue(oldest_wait=30, running=0), 60)
    assert full is not None
    assert full.status == 503


def test_rows_too_few_for_all_go_round() -> None:
    scheduler = Scheduler(CONFIG.model_copy(update={"max_batch_tokens": 2}))
    seqs = [make_sequence([i] * 9, f"r{i}", cache_salt=f"salt {i}") for i in range(5)]
    for seq in seqs:
        scheduler.add(seq)
    for _ in range(10):
        for chunk in scheduler.schedule().chunks:
            scheduler.commit(chunk)
    assert [seq.num_computed for seq in seqs] == [4, 4, 4, 4, 4]

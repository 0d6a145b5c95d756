"""Attention through the block table is attention, and says no to what it does not know."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from inference.model.attention import PagedPass, Rule, attention
from inference.model.errors import ModelRefused
from inference.model.paging import Span, pack
from tests.inference.driving import BLOCK_SIZE, consecutive, scattered

QUERY_HEADS, GROUPS, DIM, SLOTS = 6, 2, 8, 256
CPU = torch.device("cpu")
Layout = Callable[..., list[int]]

RULES = {
    "plain": Rule(0.3),
    "window": Rule(0.3, window=5),
    "window over a tile": Rule(0.3, window=70),
    "softcap": Rule(0.3, softcap=0.7),
    "sinks": Rule(0.3, sinks_Q=torch.linspace(-1, 2, QUERY_HEADS)),
    "all": Rule(0.3, window=6, softcap=1.1, sinks_Q=torch.linspace(-1, 2, QUERY_HEADS)),
}


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def by_definition(query_QTD: Tensor, key_KTD: Tensor, value_KTD: Tensor, rule: Rule) -> Tensor:
    """A whole sequence at once, key and value repeated, position by position. (T, Q, D)"""
    heads, length, _ = query_QTD.shape
    out = torch.empty(length, heads, DIM)
    for q in range(heads):
        key, value = key_KTD[q // (heads // GROUPS)], value_KTD[q // (heads // GROUPS)]
        for t in range(length):
            low = max(0, t - rule.window + 1) if rule.window else 0
            scores = key[low : t + 1] @ query_QTD[q, t] * rule.scaling
            scores = torch.tanh(scores / rule.softcap) * rule.softcap if rule.softcap else scores
            sink = math.exp(float(rule.sinks_Q[q])) if rule.sinks_Q is not None else 0.0
            weights = scores.exp() / (scores.exp().sum() + sink)
            out[t, q] = weights @ value[low : t + 1]
    return out


def random_rows(length: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(heads, length, DIM, generator=rng) for heads in (QUERY_HEADS, GROUPS, GROUPS))  # type: ignore[return-value]


class Cache:
    """One layer, filled with NaN: reading a slot that no row wrote shows."""

    def __init__(self) -> None:
        self.keys, self.values = (torch.full((GROUPS, SLOTS, DIM), math.nan) for _ in range(2))

    def attend(self, spans: list[Span], rows: tuple[Tensor, ...], rule: Rule) -> Tensor:
        packed = pack(spans, BLOCK_SIZE, CPU)
        pages = PagedPass([self.keys], [self.values], packed.slots_T, packed.gathered_G, packed.spans_B4)
        query, key, value = (each[None] for each in rows)
        return pages.attend(0, query, key, value, rule)[0]


def cut(rows: tuple[Tensor, ...], start: int, end: int) -> tuple[Tensor, ...]:
    return tuple(each[:, start:end] for each in rows)


@pytest.mark.parametrize("layout", [consecutive, scattered])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_it_is_attention_by_definition_over_tiles_and_passes(rule: Rule, layout: Layout, rng: torch.Generator) -> None:
    rows = random_rows(150, rng)
    cache, blocks = Cache(), layout(38)
    cuts = [(0, 3), (3, 4), (4, 137), (137, 150)]
    parts = [cache.attend([Span(range(b - a), a, blocks, 0)], cut(rows, a, b), rule) for a, b in cuts]
    torch.testing.assert_close(torch.cat(parts), by_definition(*rows, rule), rtol=0, atol=2e-5)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_packed_sequences_do_not_see_each_other(rule: Rule, rng: torch.Generator) -> None:
    one, two = random_rows(20, rng), random_rows(9, rng)
    spans = [Span(range(20), 0, scattered(5), 0), Span(range(9), 0, consecutive(3, first=5), 0)]
    together = tuple(torch.cat([a, b], dim=1) for a, b in zip(one, two, strict=True))
    out = Cache().attend(spans, together, rule)
    torch.testing.assert_close(out[:20], by_definition(*one, rule), rtol=0, atol=2e-5)
    torch.testing.assert_close(out[20:], by_definition(*two, rule), rtol=0, atol=2e-5)


def test_scattered_blocks_give_the_very_numbers_of_consecutive_ones(rng: torch.Generator) -> None:
    rows = random_rows(40, rng)
    one, other = (Cache().attend([Span(range(40), 0, b, 0)], rows, RULES["plain"]) for b in (range(10), scattered(10)))
    assert torch.equal(one, other)


def test_half_precision_keeps_its_type(rng: torch.Generator) -> None:
    cache = Cache()
    cache.keys, cache.values = cache.keys.bfloat16(), cache.values.bfloat16()
    rows = tuple(each.bfloat16() for each in random_rows(20, rng))
    for rule in RULES.values():
        out = cache.attend([Span(range(20), 0, range(5), 0)], rows, rule)
        assert out.dtype == torch.bfloat16
        expected = by_definition(*(each.float() for each in rows), rule)  # type: ignore[misc]
        torch.testing.assert_close(out.float(), expected, rtol=0, atol=5e-2)


def test_the_operator_declares_what_it_writes(rng: torch.Generator) -> None:
    """So that torch.compile may keep it in the graph: schema, aliasing and shapes as declared."""
    packed = pack([Span(range(6), 0, [2, 0], 0)], BLOCK_SIZE, CPU)
    keys, values = torch.zeros(GROUPS, 16, DIM), torch.zeros(GROUPS, 16, DIM)
    pages = (packed.slots_T, packed.gathered_G, packed.spans_B4)
    arguments = (*random_rows(6, rng), keys, values, *pages, 0.3, 5, None, None)
    result = torch.library.opcheck(
        torch.ops.specgate.paged_attention.default, arguments, test_utils=("test_schema", "test_faketensor")
    )
    assert set(result.values()) == {"SUCCESS"}


class Layer(nn.Module):
    layer_idx = 0
    is_causal = True


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("position_bias", torch.zeros(1)),
        ("cu_seq_lens_q", torch.zeros(1)),
        ("indices", torch.zeros(1)),
        ("sinks", torch.zeros(1)),
        ("something_new", False),
        ("is_causal", False),
        ("dropout", 0.1),
    ],
)
def test_an_argument_it_does_not_honour_is_refused_by_name(argument: str, given: Any, rng: torch.Generator) -> None:
    query, key, value = (each[None] for each in random_rows(3, rng))
    pages = PagedPass([], [], torch.empty(0), torch.empty(0), torch.empty(0))
    with pytest.raises(ModelRefused, match=f"Layer passes '{argument}'"):
        attention(Layer(), query, key, value, None, pages=pages, **{argument: given})


def test_a_mask_made_by_the_model_is_refused(rng: torch.Generator) -> None:
    query, key, value = (each[None] for each in random_rows(3, rng))
    pages = PagedPass([], [], torch.empty(0), torch.empty(0), torch.empty(0))
    with pytest.raises(ModelRefused, match="attention_mask"):
        attention(Layer(), query, key, value, torch.zeros(1), pages=pages)


def test_a_model_that_hands_nothing_down_is_refused(rng: torch.Generator) -> None:
    query, key, value = (each[None] for each in random_rows(3, rng))
    with pytest.raises(ModelRefused, match="does not hand its layer number"):
        attention(Layer(), query, key, value, None)

"""Money is whole: each line is rounded once, half to even, and what one item has no other has too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.money import ITEMS, PER, Line, Price, Used, cost, total

COUNT = st.integers(0, 10**12)
PRICE = st.builds(Price, *(st.integers(0, 10**9) for _ in ITEMS))


@pytest.mark.parametrize(
    ("product", "micros"),
    [(0, 0), (499_999, 0), (500_000, 0), (500_001, 1), (1_500_000, 2), (2_500_000, 2), (10**18 + 1, 10**12)],
)
def test_a_half_goes_to_the_even_neighbour(product: int, micros: int) -> None:
    assert cost(product) == micros


def test_a_bill_has_a_line_for_each_item_that_was_used() -> None:
    used = Used(input_tokens=100, cached_tokens=40, output_tokens=30, rejected_tokens=10)
    lines = Price(input=150_000, cached=75_000, output=600_000, rejected=0).lines(used)
    assert lines == (
        Line("input", 60, 150_000, 9),
        Line("cached", 40, 75_000, 3),
        Line("output", 20, 600_000, 12),
        Line("rejected", 10, 0, 0),
    )
    assert total(lines) == 24
    assert Price().lines(Used(5)) == (Line("input", 5, 0, 0),)


@given(price=PRICE, parts=st.tuples(COUNT, COUNT, COUNT, COUNT))
def test_items_share_no_token_and_lines_lie_within_half_a_unit_each(price: Price, parts: tuple[int, ...]) -> None:
    fresh, cached, visible, rejected = parts
    used = Used(fresh + cached, visible + rejected, cached, rejected)
    assert tuple(used.of(item) for item in ITEMS) == parts
    exact = sum(used.of(item) * price.of(item) for item in ITEMS)
    assert abs(total(price.lines(used)) * PER - exact) <= len(ITEMS) * PER // 2
    assert abs(price.cost(used) * PER - exact) <= PER // 2
    assert price.cost(used) <= price.most(Used(used.input_tokens, used.output_tokens))

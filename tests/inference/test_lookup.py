"""Lookup drafts what followed the last time the sequence's own text stood where it stands now."""

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.config import LookupConfig
from inference.speculation.lookup import LookupProposer, circle
from tests.inference.drafting import Writer


def writer(*prompt: int, min_ngram: int = 2, max_ngram: int = 5) -> Writer:
    return Writer(LookupProposer(LookupConfig(min_ngram=min_ngram, max_ngram=max_ngram)), prompt=prompt)


def by_search(tokens: list[int], min_ngram: int, max_ngram: int, most: int) -> list[int]:
    """The same, written as its definition: longest n first, most recent place first."""
    for n in range(max_ngram, min_ngram - 1, -1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if n <= len(tokens) and tokens[end - n : end] == tokens[len(tokens) - n :]:
                return list(circle(tokens, end, most))
    return []


def test_it_drafts_what_followed_the_last_two_tokens() -> None:
    assert writer(1, 2, 3, 4, 5, 1, 2).draft(3) == [3, 4, 5]
    assert writer(1, 2, 3, 4, 5).draft() == []


def test_the_output_counts_as_much_as_the_prompt() -> None:
    assert writer(1, 2, 3).emit(7, 8, 9, 7, 8).draft(1) == [9]


def test_the_longest_match_wins_over_a_more_recent_one() -> None:
    assert writer(1, 2, 3, 40, 9, 2, 3, 50, 1, 2, 3).draft(1) == [40]


def test_of_equal_matches_the_most_recent_wins() -> None:
    assert writer(1, 2, 40, 1, 2, 50, 1, 2).draft(1) == [50]


def test_a_draft_that_reaches_its_own_beginning_goes_round() -> None:
    assert writer(5, 6, 7, 5, 6, 7, 5, 6).draft(8) == [7, 5, 6, 7, 5, 6, 7, 5]
    assert writer(4, 4, 4).draft(3) == [4, 4, 4]


def test_one_token_is_too_little_and_a_longer_minimum_is_kept() -> None:
    assert writer(1, 2, 9, 2).draft() == []
    assert writer(1, 2, 9, 1, 2, min_ngram=3).draft() == []


def test_it_keeps_up_while_it_may_not_draft() -> None:
    w = writer(1, 2, 3)
    assert w.draft(0) == []
    assert w.emit(4, 5, 1, 2).draft(0) == []
    assert w.emit(3).draft(2) == [4, 5]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    prompt=st.lists(st.integers(0, 3), max_size=12),
    written=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=12),
    sizes=st.tuples(st.integers(1, 3), st.integers(0, 3)),
    most=st.integers(0, 7),
)
def test_the_index_finds_what_a_search_finds(
    prompt: list[int], written: list[list[int]], sizes: tuple[int, int], most: int
) -> None:
    low, high = sizes[0], sizes[0] + sizes[1]
    w = writer(*prompt, min_ngram=low, max_ngram=high)
    for run in [[], *written]:
        drafted = w.emit(*run).draft(most)
        assert drafted == (by_search(w.tokens, low, high, most) if most else [])


def test_its_own_length_bounds_what_it_proposes() -> None:
    w = Writer(LookupProposer(LookupConfig(length=2)), prompt=(1, 2, 3, 4, 5, 1, 2))
    assert w.draft(3) == [3, 4]
    assert w.draft(1) == [3]

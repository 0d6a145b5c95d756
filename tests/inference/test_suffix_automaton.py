"""The automaton against its definition, written as a search."""

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.speculation.suffix_automaton import NO_MATCH, ROOT, Match, SuffixAutomaton

texts = st.integers(2, 4).flatmap(lambda size: st.lists(st.integers(0, size - 1), max_size=40))


def longest_suffix_before(tokens: list[int]) -> int:
    """The length of the longest suffix that also ends earlier."""
    end = len(tokens)
    return next(
        (n for n in range(end - 1, 0, -1) for at in range(n, end) if tokens[at - n : at] == tokens[end - n :]), 0
    )


@settings(deadline=None, derandomize=True, max_examples=200)
@given(texts)
def test_it_knows_the_longest_suffix_that_stood_before_and_where(tokens: list[int]) -> None:
    automaton = SuffixAutomaton()
    for end in range(1, len(tokens) + 1):
        automaton.extend(tokens[end - 1 : end])
        length, behind = automaton.match
        assert length == longest_suffix_before(tokens[:end])
        if length:
            assert behind < end
            assert tokens[behind - length : behind] == tokens[end - length : end]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(texts, texts, st.integers(0, 40))
def test_another_text_is_read_along_also_while_it_grows(text: list[int], other: list[int], cut: int) -> None:
    automaton = SuffixAutomaton(text[:cut])
    state, matched = ROOT, 0
    for end in range(1, len(other) + 1):
        if end == len(other) // 2:
            automaton.extend(text[cut:])
        state, matched = automaton.step(state, matched, other[end - 1])
        length, behind = automaton.at(state, matched)
        read, known = other[:end], automaton.text
        assert known[behind - length : behind] == read[end - length :]
    # What was read before the text grew may have matched less than it would now; a fresh reader knows the longest.
    state, matched = ROOT, 0
    for token in other:
        state, matched = automaton.step(state, matched, token)
    whole = automaton.text
    longest = max(
        (
            n
            for n in range(len(other) + 1)
            for at in range(n, len(whole) + 1)
            if whole[at - n : at] == other[len(other) - n :]
        ),
        default=0,
    )
    assert automaton.at(state, matched).length == longest


def test_a_long_match_leads_to_its_latest_place() -> None:
    automaton = SuffixAutomaton([1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3])
    assert automaton.match == Match(3, 7)


def test_nothing_matches_at_first() -> None:
    assert SuffixAutomaton().match == NO_MATCH
    assert SuffixAutomaton([5]).match == NO_MATCH
    assert SuffixAutomaton([5, 6]).match == NO_MATCH


def test_it_has_at_most_two_states_a_token() -> None:
    """The bound of the structure, and so of its memory and of the time to build it."""
    tokens = [i % 7 * (i % 11) for i in range(2000)]
    assert len(SuffixAutomaton(tokens)._link) <= 2 * len(tokens)

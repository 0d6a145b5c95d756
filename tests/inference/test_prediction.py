"""A prediction is followed token by token, found again after a divergence, and never trusted further than it holds."""

from collections.abc import Sequence as Items

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.sequence import Prediction, Spelling
from inference.speculation.pointer import LONGEST_PAUSE, needed, pause
from inference.speculation.prediction import PredictionProposer, head
from inference.speculation.reference import Reference
from tests.inference.drafting import Writer, predict

TEXT = list(range(10, 40))
"""Thirty different tokens; 50 and more are new text."""


def writer(*spellings: Items[int], strict: bool = False) -> Writer:
    return Writer(PredictionProposer(), prompt=[1, 2, 3], prediction=predict(*spellings), strict_resync=strict)


def fail(w: Writer, times: int, at: int = 5) -> Writer:
    """Syncs that the very next token contradicts: two tokens of the text, then new text, over and over."""
    for _ in range(times):
        w.emit(TEXT[at], TEXT[at + 1], 50)
    return w


def test_it_drafts_from_the_start_and_goes_on_behind_what_was_emitted() -> None:
    w = writer(TEXT)
    assert w.draft(4) == [10, 11, 12, 13]
    assert w.emit(10, 11, 12).draft(2) == [13, 14]


def test_nothing_is_drafted_after_the_text_is_exhausted() -> None:
    w = writer(TEXT).emit(*TEXT[:-1])
    assert w.draft() == [39]
    assert w.emit(39).draft() == []
    assert w.emit(50).draft() == []


def test_two_emitted_tokens_find_the_place_again() -> None:
    w = writer(TEXT).emit(10, 11, 50)
    assert w.draft() == []
    assert w.emit(15).draft() == []
    assert w.emit(16).draft(3) == [17, 18, 19]


def test_the_nearest_place_at_or_behind_the_last_good_one_is_taken() -> None:
    again = [*TEXT, 20, 21, 60, *TEXT[:3], 20, 21, 61]
    followed = writer(again).emit(*TEXT, 50, 20, 21)
    assert followed.draft(1) == [60]
    assert writer(again).emit(50, 20, 21).draft(1) == [22]


def test_a_match_at_the_very_end_leads_nowhere() -> None:
    reference = Reference(Spelling((1, 2, 1, 2), (0, 1, 2, 3)))
    assert reference.find((1, 2), near=0) == 2
    assert reference.find((1, 2), near=3) == 2


def test_a_moved_block_is_found_before_the_last_good_place() -> None:
    w = writer(TEXT).emit(*TEXT[15:], 10, 11)
    assert w.draft(3) == [12, 13, 14]


def test_a_sync_that_did_not_hold_moves_no_good_place() -> None:
    """Ten tokens followed, then a false sync far ahead: the next one is still sought from behind the ten."""
    text = [*TEXT[:12], 70, 71, 72, *TEXT[12:20], 80, 81, 82, 70, 71, 90]
    w = writer(text).emit(*TEXT[:10], 50, 81, 82, 51, 70, 71)
    assert w.draft(1) == [72]


def test_the_emitted_tokens_are_followed_whoever_drafted_and_when_none_may() -> None:
    w = writer(TEXT)
    assert w.draft(0) == []
    assert w.emit(10, 11).draft(0) == []
    assert w.emit(12, 13, 14, 15, 16).draft(2) == [17, 18]


def test_the_prompt_is_no_evidence() -> None:
    w = Writer(PredictionProposer(), prompt=[15, 16], prediction=predict(TEXT))
    assert w.draft(1) == [10]
    assert w.emit(50).draft() == []
    w = Writer(PredictionProposer(), prompt=[15], prediction=predict(TEXT))
    assert w.emit(16).draft() == [], "one emitted token is no two"


def test_after_four_failed_syncs_four_tokens_make_one() -> None:
    assert fail(writer(TEXT), 3).emit(15, 16).draft(1) == [17]
    w = fail(writer(TEXT), 4).emit(15, 16)
    assert w.draft() == []
    assert w.emit(17).draft() == []
    assert w.emit(18).draft(1) == [19]


def test_one_held_sync_makes_two_tokens_enough_again() -> None:
    w = fail(writer(TEXT), 4).emit(15, 16, 17, 18, 19, 50, 12, 13)
    assert w.draft(1) == [14]


def test_strict_takes_three_tokens_from_the_start() -> None:
    w = writer(TEXT, strict=True).emit(50, 15, 16)
    assert w.draft() == []
    assert w.emit(17).draft(1) == [18]


def test_a_stale_prediction_is_left_alone_for_a_while_and_never_for_good() -> None:
    w = fail(writer(TEXT), 4)
    for _ in range(4):
        w.emit(15, 16, 17, 18, 50)
    assert w.emit(*TEXT[5:15]).draft() == [], "eight failed: sixteen tokens of pause"
    assert w.emit(*TEXT[15:21]).draft(2) == [31, 32], "and then it looks again"


def test_the_price_of_failing_is_bounded() -> None:
    assert [needed(f, strict=False) for f in (0, 3, 4, 99)] == [2, 2, 4, 4]
    assert [needed(f, strict=True) for f in (0, 3, 4)] == [3, 3, 4]
    assert [pause(f) for f in (0, 7, 8, 9, 10, 11, 10**6)] == [0, 0, 16, 32, 64, 64, LONGEST_PAUSE]


def test_the_spelling_that_is_being_written_is_found_at_the_same_place() -> None:
    lf = [10, 11, 5, 12, 13, 5, 10, 11, 5, 14]
    crlf = [10, 11, 6, 12, 13, 6, 10, 11, 6, 14]
    w = writer(lf, crlf).emit(10, 11, 6)
    assert w.draft() == [12, 13, 6, 10, 11, 6, 14]
    assert writer(lf, crlf).emit(50, 13, 5).draft(1) == [10]


def test_origins_name_the_tokens_as_given() -> None:
    prediction = Prediction(6, (Spelling((10, 11, 12), (0, 2, 4)), Spelling((20, 21, 22), (1, 3, 5))))
    w = Writer(PredictionProposer(), prediction=prediction)
    assert w.proposal(2).origins == (0, 2)
    assert w.emit(50, 20, 21).proposal().origins == (5,)


def test_no_prediction_no_draft_and_no_memory() -> None:
    for prediction in (None, Prediction(0, ())):
        w = Writer(PredictionProposer(), prompt=[1], prediction=prediction)
        assert w.emit(2, 3).draft() == []
        assert w.memory == {}


ids = st.lists(st.integers(0, 5), max_size=40)
chunks = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=40)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(first=ids, second=ids, written=chunks, strict=st.booleans(), most=st.integers(0, 9))
def test_any_text_gives_drafts_that_are_its_own(
    first: list[int], second: list[int], written: list[list[int]], strict: bool, most: int
) -> None:
    """Fed in runs or token by token, asked or not: the same drafts, within bounds, from the places they claim."""
    runs = writer(first, second, strict=strict)
    singly = writer(first, second, strict=strict)
    for run in [[], *written]:
        for token in run:
            singly.emit(token).draft(3)
        proposal = runs.emit(*run).proposal(most)
        assert singly.proposal(most) == proposal
        assert len(proposal) == len(proposal.origins) <= most
        spelled = (tuple(ids[o] for o in proposal.origins if o < len(ids)) for ids in (first, second))
        assert not proposal or proposal.tokens in spelled


@settings(deadline=None, derandomize=True, max_examples=100)
@given(text=st.lists(st.integers(0, 3), min_size=1, max_size=60), cut=st.integers(0, 60))
def test_a_text_that_is_copied_is_drafted_to_its_end(text: list[int], cut: int) -> None:
    assert writer(text).emit(*text[:cut]).draft() == text[cut:]


def test_a_limit_uses_the_first_tokens_of_a_prediction_in_every_spelling() -> None:
    given, other = range(10, 20), [10, 11, 99, 12, 13, 14]
    prediction = Prediction(10, (Spelling(tuple(given), tuple(range(10))), Spelling(tuple(other), (0, 1, 1, 2, 3, 4))))
    assert head(prediction, None) == head(prediction, 10) == prediction
    cut = head(prediction, 3)
    assert (cut.num_tokens, [s.ids for s in cut.spellings]) == (3, [(10, 11, 12), (10, 11, 99, 12)])
    writer = Writer(PredictionProposer(3), prediction=prediction)
    assert writer.draft() == [10, 11, 12]
    assert writer.emit(10, 11, 12).draft() == []

"""Of several proposals the one that gains most is taken, under its proposer's own name; every member keeps up."""

from inference.config import AdaptiveConfig, LookupConfig
from inference.speculation.cascade import Cascade
from inference.speculation.draft_length import DraftLength
from inference.speculation.lookup import LookupProposer
from inference.speculation.pass_cost import PassCost
from inference.speculation.prediction import PredictionProposer
from inference.speculation.proposer import DraftBatch, Proposer
from tests.inference.drafting import Fixed, Writer, predict


def cascade(*members: Proposer) -> Cascade:
    return Cascade(members, DraftLength(AdaptiveConfig(mode="schedule"), PassCost()))


def test_the_likelier_proposer_wins_before_anything_is_known() -> None:
    w = Writer(cascade(Fixed("lookup", 1, 2, 3), Fixed("prediction", 4, 5, 6)))
    assert w.proposal().proposer == "prediction"
    assert w.draft() == [4, 5, 6]


def test_a_longer_proposal_may_be_worth_more_than_a_likelier_one() -> None:
    w = Writer(cascade(Fixed("prediction", 4), Fixed("lookup", *range(8))))
    assert w.proposal().proposer == "lookup"


def test_the_first_that_has_nothing_leaves_the_turn_to_the_next() -> None:
    assert Writer(cascade(Fixed("prediction"), Fixed("lookup", 1))).draft() == [1]
    assert Writer(cascade(Fixed("prediction"), Fixed("lookup"))).draft() == []
    assert Writer(cascade()).draft() == []


def test_equal_gains_go_to_the_earlier_member() -> None:
    assert Writer(cascade(Fixed("a", 1), Fixed("b", 2))).draft() == [1]


def test_who_says_the_same_first_is_credited_with_it() -> None:
    """A file that is both prompt and prediction is found by lookup too: the client's prediction gets the credit."""
    prediction, lookup = Fixed("prediction", 9, 9), Fixed("lookup", 4, 5)
    w = Writer(cascade(prediction, lookup))
    for _ in range(8):
        w.draft()
        w.emit(4, 5)
    assert w.proposal().proposer == "lookup", "it was right, and says something else"
    prediction.answer = (4, 5, 6)
    assert w.proposal().proposer == "prediction"


def test_history_on_this_sequence_decides_and_no_other_sequence_feels_it() -> None:
    likely, unlikely = Fixed("prediction", 4, 4), Fixed("lookup", 5, 5)
    both = cascade(likely, unlikely)
    w = Writer(both)
    for _ in range(8):
        w.draft()
        w.emit(5)
    assert w.proposal().proposer == "lookup"
    assert Writer(both).proposal().proposer == "prediction"


def test_the_loser_comes_back_when_it_would_have_been_right() -> None:
    """It is judged by every proposal, not only by those that won."""
    w = Writer(cascade(Fixed("prediction", 4, 4), Fixed("lookup", 5, 5)))
    for _ in range(20):
        w.draft()
        w.emit(5)
    for _ in range(20):
        w.draft()
        w.emit(4)
    assert w.proposal().proposer == "prediction"


def test_every_member_sees_every_sequence_at_every_step() -> None:
    first, second = Fixed("a", 1), Fixed("b", 2)
    items = [Writer(first).item(), Writer(first).item(0)]
    proposals = cascade(first, second).propose(DraftBatch(items))
    assert [p.tokens for p in proposals] == [(1,), ()]
    assert first.seen == second.seen == [2]


def test_both_pointers_stand_where_the_text_is_whoever_won() -> None:
    prediction, lookup = PredictionProposer(), LookupProposer(LookupConfig())
    w = Writer(cascade(prediction, lookup), prompt=[1, 2, 3, 4, 5, 6], prediction=predict([1, 2, 3, 70, 80, 90, 91]))
    w.draft()
    w.emit(1, 2, 3)
    assert [p.propose(DraftBatch([w.item(2)]))[0].tokens for p in (prediction, lookup)] == [(70, 80), (4, 5)]
    w.draft()
    w.emit(70, 80)
    assert w.proposal().tokens == (90, 91)
    assert w.proposal().origins == (5, 6)

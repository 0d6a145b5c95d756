"""Suffix drafts follow the longest match; a tenant that opted in drafts from its own earlier outputs, no other's."""

from inference.config import SuffixConfig
from inference.speculation.proposer import DraftItem, Learner
from inference.speculation.suffix import POOL, POOLS, SuffixProposer
from tests.inference.drafting import Writer


def proposer(**settings: object) -> SuffixProposer:
    return SuffixProposer(SuffixConfig.model_validate({"enabled": True, **settings}))


def ended(learner: Learner, output: list[int], salt: str = "a") -> None:
    learner.finish(DraftItem([1, 2, 3, *output], 3, 0, {}, cache_salt=salt))


def test_it_drafts_what_followed_the_longest_match() -> None:
    assert Writer(proposer(), prompt=(1, 2, 3, 40, 9, 2, 3, 50, 1, 2, 3)).draft(1) == [40]
    assert Writer(proposer(), prompt=(1, 2, 40, 1, 2, 50, 1, 2)).draft(1) == [50]


def test_a_match_vouches_for_factor_times_its_length() -> None:
    text = (1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2)
    assert Writer(proposer(factor=1.0), prompt=text).draft() == [3, 4]
    assert Writer(proposer(factor=2.5), prompt=text).draft() == [3, 4, 5, 6, 7]
    assert Writer(proposer(factor=64.0, length=3), prompt=text).draft() == [3, 4, 5]
    assert Writer(proposer(factor=64.0), prompt=text).draft(2) == [3, 4]


def test_less_than_the_least_match_is_no_draft() -> None:
    assert Writer(proposer(min_match=2), prompt=(1, 2, 9, 2)).draft() == []
    assert Writer(proposer(min_match=1), prompt=(1, 2, 9, 2)).draft(1) == [9]


def test_a_draft_that_reaches_its_own_beginning_goes_round() -> None:
    assert Writer(proposer(factor=64.0), prompt=(4, 4, 4)).draft(3) == [4, 4, 4]
    assert Writer(proposer(factor=64.0), prompt=(5, 6, 7, 5, 6, 7, 5, 6)).draft(8) == [7, 5, 6, 7, 5, 6, 7, 5]


def test_it_keeps_up_while_it_may_not_draft() -> None:
    w = Writer(proposer(), prompt=(1, 2, 3))
    assert w.draft(0) == []
    assert w.emit(4, 5, 1, 2).draft(0) == []
    assert w.emit(3).draft(2) == [4, 5]


def test_a_request_learns_from_no_other_by_default() -> None:
    suffix = proposer(min_match=1)
    ended(suffix, [7, 8, 9])
    assert Writer(suffix, prompt=(7, 8)).draft() == []


def test_a_tenant_that_opted_in_drafts_from_what_it_said_before() -> None:
    suffix = proposer(scope="tenant", min_match=2)
    ended(suffix, [7, 8, 9, 10])
    w = Writer(suffix, prompt=(0, 7, 8), cache_salt="a")
    assert w.draft() == [9, 10]
    assert w.emit(9).draft() == [10]
    assert w.emit(11).draft() == []


def test_prompts_and_other_tenants_never_join_the_pool() -> None:
    suffix = proposer(scope="tenant", min_match=2)
    ended(suffix, [7, 8, 9, 10], salt="a")
    assert Writer(suffix, prompt=(7, 8), cache_salt="b").draft() == []
    assert Writer(suffix, prompt=(0, 1, 2), cache_salt="a").draft() == []  # its prompt was 1, 2, 3


def test_a_draft_ends_where_the_earlier_output_ended() -> None:
    suffix = proposer(scope="tenant", min_match=2, factor=64.0)
    ended(suffix, [7, 8, 9])
    ended(suffix, [5, 5, 5])
    assert Writer(suffix, prompt=(7, 8), cache_salt="a").draft() == [9]
    assert Writer(suffix, prompt=(8, 9), cache_salt="a").draft() == []


def test_the_pool_forgets_the_oldest_half() -> None:
    suffix = proposer(scope="tenant", min_match=3)
    ended(suffix, [7, 8, 9, 10])
    filler = list(range(100, 100 + POOL // 4))
    for _ in range(2):
        ended(suffix, filler)
    assert Writer(suffix, prompt=(7, 8, 9), cache_salt="a").draft() == [10]  # in the older half now
    for _ in range(2):
        ended(suffix, filler)
    assert Writer(suffix, prompt=(7, 8, 9), cache_salt="a").draft() == []


def test_the_number_of_pools_is_bounded() -> None:
    suffix = proposer(scope="tenant", min_match=2)
    ended(suffix, [7, 8, 9], salt="first")
    for number in range(POOLS):
        ended(suffix, [1], salt=str(number))
    assert Writer(suffix, prompt=(7, 8), cache_salt="first").draft() == []

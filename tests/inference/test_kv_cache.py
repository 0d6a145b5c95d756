"""Blocks: who holds them, which prefixes can be used again, and that nothing is lost or shared by mistake."""

from inference.engine.kv_cache import KVCache
from inference.sequence import Sequence
from tests.fakes import make_sequence


def computed(cache: KVCache, tokens: list[int], salt: str = "") -> Sequence:
    """A sequence whose tokens are all in the cache and published."""
    seq = make_sequence(tokens, cache_salt=salt)
    cache.attach(seq)
    assert cache.grow(seq, len(tokens))
    seq.num_computed = len(tokens)
    cache.publish(seq)
    return seq


def test_a_new_sequence_gets_a_consecutive_run() -> None:
    cache = KVCache(num_blocks=8, block_size=4)
    seq = make_sequence(range(10))
    assert cache.attach(seq) == 0
    assert cache.grow(seq, 10)
    assert seq.blocks == [0, 1, 2]
    assert cache.num_free == 5


def test_a_second_sequence_leaves_the_first_room_to_grow() -> None:
    cache = KVCache(num_blocks=8, block_size=4)
    first, second = make_sequence(range(8)), make_sequence(range(100, 108))
    cache.grow(first, 8)
    cache.grow(second, 8)
    assert (first.blocks, second.blocks) == ([0, 1], [5, 6])
    cache.grow(first, 20)
    assert first.blocks == [0, 1, 2, 3, 4]


def test_a_published_prefix_is_shared_and_the_last_token_never_matched() -> None:
    cache = KVCache(num_blocks=8, block_size=4)
    first = computed(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    second = make_sequence([1, 2, 3, 4, 5, 6, 7, 8])
    assert cache.attach(second) == 4
    assert second.blocks == first.blocks[:1]
    cache.check([first, second])


def test_only_full_blocks_of_computed_tokens_are_published() -> None:
    cache = KVCache(num_blocks=8, block_size=4)
    seq = make_sequence(range(12))
    cache.grow(seq, 12)
    seq.num_computed = 7
    cache.publish(seq)
    assert cache.attach(make_sequence(range(12))) == 4


def test_a_block_is_named_by_everything_before_it() -> None:
    cache = KVCache(num_blocks=16, block_size=4)
    computed(cache, [1, 1, 1, 1, 9, 9, 9, 9, 5])
    other = make_sequence([2, 2, 2, 2, 9, 9, 9, 9, 5])
    assert cache.attach(other) == 0


def test_identical_blocks_in_a_row_are_told_apart() -> None:
    cache = KVCache(num_blocks=16, block_size=4)
    first = computed(cache, [7] * 13)
    second = make_sequence([7] * 13)
    assert cache.attach(second) == 12
    assert second.blocks == first.blocks[:3]
    assert len(set(second.blocks)) == 3


def test_another_salt_shares_nothing() -> None:
    cache = KVCache(num_blocks=16, block_size=4)
    computed(cache, list(range(12)), salt="tenant a")
    assert cache.attach(make_sequence(range(12), cache_salt="tenant b")) == 0
    assert cache.attach(make_sequence(range(12), cache_salt="tenant a")) == 8


def test_freed_prefixes_stay_until_the_room_is_needed_oldest_first() -> None:
    cache = KVCache(num_blocks=12, block_size=4)
    cache.free(computed(cache, [1] * 9))
    cache.free(computed(cache, [2] * 9))
    assert (cache.num_free, cache.num_empty) == (12, 8)
    wanted = make_sequence([3] * 36)
    assert cache.grow(wanted, 36)
    assert cache.attach(make_sequence([1] * 9)) == 0
    cache.check([wanted])


def test_growing_takes_all_or_nothing() -> None:
    cache = KVCache(num_blocks=4, block_size=4)
    first, second = make_sequence(range(12)), make_sequence(range(12))
    assert cache.grow(first, 12)
    assert not cache.grow(second, 8)
    assert second.blocks == []
    cache.check([first, second])


def test_a_draft_gives_up_no_published_prefix() -> None:
    cache = KVCache(num_blocks=4, block_size=4)
    cache.free(computed(cache, [1] * 9))
    seq = make_sequence([5] * 4)
    assert cache.grow(seq, 4)
    assert cache.num_empty == 1
    assert cache.grow_into_empty(seq, 4 + 8) == 8
    assert cache.attach(make_sequence([1] * 9)) == 8


def test_trimming_returns_what_a_rejected_draft_had_taken() -> None:
    cache = KVCache(num_blocks=8, block_size=4)
    seq = make_sequence(range(5))
    cache.grow(seq, 5)
    cache.grow_into_empty(seq, 20)
    assert len(seq.blocks) == 5
    cache.trim(seq)
    assert seq.blocks == [0, 1]
    assert cache.num_empty == 6


def test_without_prefix_caching_nothing_is_matched() -> None:
    cache = KVCache(num_blocks=8, block_size=4, prefix_caching=False)
    computed(cache, [1] * 9)
    assert cache.attach(make_sequence([1] * 9)) == 0

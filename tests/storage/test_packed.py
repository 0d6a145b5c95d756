"""Packed counts: put end to end they add up, and the same counts are the same bytes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from storage.histogram import BOUNDS, NUM_BUCKETS, Histogram, bucket_of
from storage.rollups.packed import pack_latencies, pack_proposers, unpack_latencies, unpack_proposers
from storage.values.usage import LATENCIES

counts = st.integers(0, 2**18)
latencies = st.dictionaries(st.integers(0, len(LATENCIES) * NUM_BUCKETS - 1), counts)
proposers = st.dictionaries(st.text(min_size=1, max_size=64), st.lists(st.integers(0, 2**34), min_size=3, max_size=12))


@given(latencies, latencies)
def test_histograms_add_up_end_to_end(one: dict[int, int], other: dict[int, int]) -> None:
    packed = pack_latencies(one) + pack_latencies(other)
    assert unpack_latencies(packed) == +(Counter(one) + Counter(other))
    assert pack_latencies(unpack_latencies(packed)) == pack_latencies(Counter(one) + Counter(other))


@given(proposers, proposers)
def test_proposers_add_up_end_to_end(one: dict[str, list[int]], other: dict[str, list[int]]) -> None:
    found = unpack_proposers(pack_proposers(one) + pack_proposers(other))
    assert list(found) == sorted({*one, *other})
    for name, slots in found.items():
        mine, theirs = one.get(name, []), other.get(name, [])
        sums = [sum(pair) for pair in zip(mine + [0] * 12, theirs + [0] * 12, strict=False)]
        assert slots == sums[: len(slots)]
        assert not any(sums[len(slots) :])


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=50), st.sampled_from([1, 50, 95, 100]))
def test_a_percentile_is_at_most_five_percent_off(micros: list[int], percent: int) -> None:
    exact = sorted(micros)[max(1, -(-len(micros) * percent // 100)) - 1]
    found = Histogram.of(micros).percentile(percent)
    assert found is not None
    assert abs(found - exact) <= 0.05 * exact + 0.5


def test_buckets_are_whole_numbers_in_order() -> None:
    assert [bucket_of(micros) for micros in (0, 1, 2, 10**6, 10**12)] == [0, 1, 8, 145, 255]
    assert all(bucket_of(bound) > bucket_of(bound - 1) for bound in BOUNDS if bound > 20)
    assert Histogram().percentile(50) is None
    assert (Histogram.of([5]) + Histogram.of([5, 90])).counts == {bucket_of(5): 2, bucket_of(90): 1}

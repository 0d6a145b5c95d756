"""Counts as bytes, such that putting two of them end to end adds them: so databases add them too. Pure.

    latencies   (duration and bucket, count) …
    proposers   (length of the name, number of pairs, name, (slot, count) …) …     slots: drafts, drafted, accepted,
                                                                                  then accepted at position 0, 1 …

Whole numbers of fixed size, little end first. What is packed here is sorted, so the same counts are the same bytes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from struct import Struct

from storage.values.usage import LATENCIES, Latency

_PAIR, _HEAD = Struct("<HI"), Struct("<HH")
MOST = 2**32 - 1
"""In one pair; more is several pairs."""
BUCKETS = 256
_NUMBERS = {name: number * BUCKETS for number, name in enumerate(LATENCIES)}
_NAMES = [(name, bucket) for name in LATENCIES for bucket in range(BUCKETS)]


def pack_latencies(latencies: Mapping[tuple[Latency, int], int]) -> bytes:
    return _pairs((_NUMBERS[name] + bucket, count) for (name, bucket), count in latencies.items())


def unpack_latencies(packed: bytes) -> Counter[tuple[Latency, int]]:
    counts = _sums(packed)
    return Counter({_NAMES[number]: counts[number] for number in sorted(counts)})


def pack_proposers(by_proposer: Mapping[str, Sequence[int]]) -> bytes:
    return b"".join(_pack_proposer(name.encode(), by_proposer[name]) for name in sorted(by_proposer))


def unpack_proposers(packed: bytes) -> dict[str, list[int]]:
    found: dict[bytes, list[bytes]] = {}
    at = 0
    while at < len(packed):
        length, pairs = _HEAD.unpack_from(packed, at)
        name_at, at = at + _HEAD.size, at + _HEAD.size + length + pairs * _PAIR.size
        found.setdefault(packed[name_at : name_at + length], []).append(packed[name_at + length : at])
    return {name.decode(): _slots(_sums(b"".join(found[name]))) for name in sorted(found)}


def _pack_proposer(name: bytes, counts: Sequence[int]) -> bytes:
    pairs = _pairs(enumerate(counts))
    return _HEAD.pack(len(name), len(pairs) // _PAIR.size) + name + pairs


def _slots(counts: Mapping[int, int]) -> list[int]:
    return [counts.get(slot, 0) for slot in range(max([2, *counts]) + 1)]


def _pairs(counts: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_PAIR.pack(*pair) for pair in chain.from_iterable(_split(*pair) for pair in sorted(counts)))


def _split(number: int, count: int) -> Iterable[tuple[int, int]]:
    """None of nothing: trailing positions without a token are not kept."""
    for _ in range(count // MOST):
        yield number, MOST
    if count % MOST:
        yield number, count % MOST


def _sums(packed: bytes) -> dict[int, int]:
    sums: dict[int, int] = {}
    for number, count in _PAIR.iter_unpack(packed):
        sums[number] = sums.get(number, 0) + count
    return sums

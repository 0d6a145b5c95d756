"""Counts as bytes, such that putting two of them end to end adds them: so databases add them too. Pure.

    latencies   (number of the bucket, count) …                      of a histogram, buckets without a count left out
    proposers   (length of the name, how many counts, name, counts) …  drafts, drafted, accepted, then by position

Whole numbers of fixed size, little end first; what is more than fits is told in parts. What is packed here is sorted,
so the same counts are the same bytes.
"""

import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import add

_PAIR, _HEAD = struct.Struct("<HH"), struct.Struct("<HH")
MOST_IN_PAIR, MOST_IN_COUNT = 2**16 - 1, 2**32 - 1


def pack_latencies(latencies: Mapping[int, int]) -> bytes:
    return b"".join(_PAIR.pack(number, part) for number in sorted(latencies) for part in _parts(latencies[number]))


def unpack_latencies(packed: bytes) -> dict[int, int]:
    """Equal pairs are counted first: that is one call, and few are left."""
    words = array("I", packed)
    if sys.byteorder == "big":
        words.byteswap()
    sums: dict[int, int] = {}
    for word, times in Counter(words).items():
        number = word & 0xFFFF
        sums[number] = sums.get(number, 0) + (word >> 16) * times
    return sums


def pack_proposers(by_proposer: Mapping[str, Sequence[int]]) -> bytes:
    return b"".join(_pack_proposer(name.encode(), by_proposer[name]) for name in sorted(by_proposer))


def unpack_proposers(packed: bytes) -> dict[str, list[int]]:
    sums: dict[bytes, list[int]] = {}
    at = 0
    while at < len(packed):
        length, number = _HEAD.unpack_from(packed, at)
        counts_at = at + _HEAD.size + length
        name, at = packed[at + _HEAD.size : counts_at], counts_at + 4 * number
        counts = struct.unpack_from(f"<{number}I", packed, counts_at)
        mine = sums.get(name)
        sums[name] = list(counts) if mine is None else added(mine, counts)
    return {name.decode(): sums[name] for name in sorted(sums)}


def added(mine: list[int], theirs: Sequence[int]) -> list[int]:
    """Counts by position, of which one may have more than the other."""
    if len(mine) != len(theirs):
        length = max(len(mine), len(theirs))
        mine, theirs = ([*counts, *[0] * (length - len(counts))] for counts in (mine, theirs))
    return list(map(add, mine, theirs))


def told_length(counts: Sequence[int]) -> int:
    """Without the last positions, where nothing was accepted."""
    length = len(counts)
    while length > 3 and not counts[length - 1]:
        length -= 1
    return length


def _pack_proposer(name: bytes, counts: Sequence[int]) -> bytes:
    length = told_length(counts)
    part = [min(count, MOST_IN_COUNT) for count in counts[:length]]
    rest = [count - told for count, told in zip(counts, part, strict=False)]
    packed = _HEAD.pack(len(name), length) + name + struct.pack(f"<{length}I", *part)
    return packed + (_pack_proposer(name, rest) if any(rest) else b"")


def _parts(count: int) -> Iterator[int]:
    for _ in range(count // MOST_IN_PAIR):
        yield MOST_IN_PAIR
    if count % MOST_IN_PAIR:
        yield count % MOST_IN_PAIR

"""Who holds which KV block, and which blocks hold a prefix that can be used again.

    sequence  blocks [7 8 9 …]     position p lies in blocks[p // block_size], row p % block_size
    block     held (refs > 0)  or  free: empty, or keeping a published prefix until somebody needs the room

A published block is named by a digest of its tokens chained on the block before it, seeded by the sequence's
`cache_salt`: equal digests mean equal tokens from position 0 on, asked under the same salt. Only full blocks of
verified tokens are published. Rolling a draft back is nothing: rejected rows lie beyond `num_computed`.

Blocks are handed out in consecutive runs where possible, so that attention can read a view instead of gathering.
Knows no model and no request.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable

from inference.sequence import Sequence

EVICTION_RUN = 8
"""Published blocks given up at a time, oldest first: one run to grow into instead of single holes."""


class KVCache:
    """Block tables, reference counts and the prefix index."""

    def __init__(self, num_blocks: int, block_size: int, prefix_caching: bool = True) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._prefix_caching = prefix_caching
        self._refs = [0] * num_blocks
        self._digest_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        self._empty = set(range(num_blocks))
        self._kept: OrderedDict[int, None] = OrderedDict()
        """Free blocks that keep a published prefix, the least recently used first."""

    @property
    def num_empty(self) -> int:
        return len(self._empty)

    @property
    def num_free(self) -> int:
        return len(self._empty) + len(self._kept)

    def missing(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks that `seq` lacks to hold its first `num_tokens` positions."""
        return max(0, -(-num_tokens // self.block_size) - len(seq.blocks))

    def attach(self, seq: Sequence) -> int:
        """Give a sequence without blocks the longest published prefix of its tokens; how many tokens that covers.

        The last token is never covered: its row has to be computed to be sampled.
        """
        assert not seq.blocks
        if not self._prefix_caching:
            return 0
        coverable = (seq.num_tokens - 1) // self.block_size
        self._digest(seq, coverable)
        for digest in seq.digests[:coverable]:
            block = self._block_of.get(digest)
            if block is None:
                break
            self._hold(block)
            seq.blocks.append(block)
        seq.num_published = len(seq.blocks)
        seq.num_computed = len(seq.blocks) * self.block_size
        return seq.num_computed

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """Make room for the first `num_tokens` positions, giving up published prefixes if need be; all or nothing."""
        need = self.missing(seq, num_tokens)
        if need > self.num_free:
            return False
        if need > self.num_empty:
            self._evict(max(need - self.num_empty, EVICTION_RUN))
        self._extend(seq, need)
        return True

    def grow_into_empty(self, seq: Sequence, num_tokens: int) -> int:
        """Make what room there is without giving anything up; how many positions of `num_tokens` now have a place."""
        self._extend(seq, min(self.missing(seq, num_tokens), self.num_empty))
        return min(num_tokens, len(seq.blocks) * self.block_size)

    def trim(self, seq: Sequence) -> None:
        """Let go of blocks beyond the committed tokens: room that a rejected draft had taken."""
        keep = -(-seq.num_tokens // self.block_size)
        while len(seq.blocks) > keep:
            self._release(seq.blocks.pop())

    def publish(self, seq: Sequence) -> None:
        """Name the blocks that are now full of computed, committed tokens."""
        if not self._prefix_caching:
            return
        full = min(seq.num_computed, seq.num_tokens) // self.block_size
        self._digest(seq, full)
        for block, digest in zip(
            seq.blocks[seq.num_published : full], seq.digests[seq.num_published : full], strict=True
        ):
            if digest not in self._block_of:
                self._digest_of[block] = digest
                self._block_of[digest] = block
        seq.num_published = max(full, seq.num_published)

    def free(self, seq: Sequence) -> None:
        """Let go of all blocks, the tail first: the head of a prefix is used again more often."""
        while seq.blocks:
            self._release(seq.blocks.pop())
        seq.num_computed = 0

    def check(self, holders: Iterable[Sequence]) -> None:
        """Assert that every block is counted exactly once, and held as often as sequences name it."""
        refs = [0] * self.num_blocks
        for seq in holders:
            for block in seq.blocks:
                refs[block] += 1
        assert refs == self._refs, "reference counts differ from the block tables"
        free = {b for b in range(self.num_blocks) if refs[b] == 0}
        assert free == self._empty | set(self._kept), "a free block is lost"
        assert not self._empty & set(self._kept), "a block is free twice"
        assert all(self._digest_of[b] is None for b in self._empty), "an empty block still has a name"
        assert all(self._digest_of[b] == d for d, b in self._block_of.items()), "the prefix index is stale"

    def _digest(self, seq: Sequence, num_blocks: int) -> None:
        """Extend the sequence's digest chain to `num_blocks` blocks."""
        while len(seq.digests) < num_blocks:
            start = len(seq.digests) * self.block_size
            parent = seq.digests[-1] if seq.digests else hashlib.sha256(seq.cache_salt.encode()).digest()
            tokens = array("q", seq.tokens[start : start + self.block_size])
            seq.digests.append(hashlib.sha256(parent + tokens.tobytes()).digest())

    def _extend(self, seq: Sequence, count: int) -> None:
        for _ in range(count):
            block = seq.blocks[-1] + 1 if seq.blocks else -1
            if block not in self._empty:
                block = self._run_start()
            self._empty.remove(block)
            self._refs[block] = 1
            seq.blocks.append(block)

    def _run_start(self) -> int:
        """Where a run begins: in the longest stretch of empty blocks, at its middle when a holder may grow into it."""
        best, length = -1, 0
        start, previous = -1, -2
        for block in sorted(self._empty):
            if block != previous + 1:
                start = block
            previous = block
            if block - start >= length:
                best, length = start, block - start + 1
        taken_before = best > 0 and self._refs[best - 1] > 0
        return best + length // 2 if taken_before else best

    def _evict(self, count: int) -> None:
        for _ in range(min(count, len(self._kept))):
            block, _none = self._kept.popitem(last=False)
            digest = self._digest_of[block]
            assert digest is not None
            del self._block_of[digest]
            self._digest_of[block] = None
            self._empty.add(block)

    def _hold(self, block: int) -> None:
        self._refs[block] += 1
        self._kept.pop(block, None)

    def _release(self, block: int) -> None:
        self._refs[block] -= 1
        if self._refs[block]:
            return
        if self._digest_of[block] is None:
            self._empty.add(block)
        else:
            self._kept[block] = None

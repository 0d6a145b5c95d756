"""Who runs in the next pass, with how many rows, and what a pass's result means for them.

There is no prefill or decode phase: `num_computed` chases the committed tokens plus the draft, and chunked prefill,
prefix hits, verification and recomputing after a preemption are that one case. A pass has `max_batch_tokens` rows,
given out in this order:

    1. one committed row for each sequence that only lacks its last token     (nobody waits for a draft or a prompt)
    2. prompts, oldest first, then new sequences while there is room
    3. drafts, from empty blocks only: they never evict, preempt or delay a committed row

When a committed row finds no block, the youngest sequence is preempted: its blocks go, its tokens and draft stay.
Knows no model and no text.
"""

from bisect import insort
from collections.abc import Iterator

from inference.config import EngineConfig
from inference.engine.kv_cache import KVCache
from inference.sequence import NO_DRAFT, Batch, Chunk, Sequence, Status


class Scheduler:
    """The queue, the running sequences and their blocks."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self.cache = KVCache(config.num_blocks, config.block_size, config.prefix_caching)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        """Oldest first."""
        self.preemptions = 0

    def add(self, seq: Sequence) -> None:
        insort(self.waiting, seq, key=lambda s: s.priority)

    def remove(self, seq: Sequence) -> None:
        """The sequence is finished or aborted: let go of everything it holds."""
        (self.running if seq.status is Status.RUNNING else self.waiting).remove(seq)
        self.cache.free(seq)
        seq.status = Status.FINISHED

    def schedule(self) -> Batch:
        rows: dict[Sequence, int] = {}
        self._decode_rows(rows)
        self._prompt_rows(rows)
        self._admit(rows)
        return Batch([self._chunk(seq, count) for seq, count in self._with_drafts(rows)])

    def commit(self, chunk: Chunk) -> None:
        """The chunk was computed and its verified tokens appended: publish, and give back what the draft had taken."""
        seq = chunk.seq
        seq.num_computed = min(chunk.end, seq.num_tokens - (1 if chunk.num_sampled else 0))
        self.cache.publish(seq)
        self.cache.trim(seq)

    def check(self) -> None:
        """Assert what must hold between two steps."""
        self.cache.check([*self.running, *self.waiting])
        for seq in self.running:
            assert seq.status is Status.RUNNING
            assert 0 <= seq.num_computed < seq.num_tokens
            assert len(seq.blocks) * self.cache.block_size >= seq.num_computed
        for seq in self.waiting:
            assert seq.status is Status.WAITING
            assert not seq.blocks
            assert seq.num_computed == 0

    def _left(self, rows: dict[Sequence, int]) -> int:
        return self._config.max_batch_tokens - sum(rows.values())

    def _decode_rows(self, rows: dict[Sequence, int]) -> None:
        for seq in list(self.running):
            lacks_one = seq.status is Status.RUNNING and _pending(seq) == 1
            if lacks_one and self._left(rows) and self._room_for(seq):
                rows[seq] = 1

    def _prompt_rows(self, rows: dict[Sequence, int]) -> None:
        """Their blocks were found when they joined."""
        for seq in self.running:
            if _pending(seq) > 1 and (left := self._left(rows)):
                rows[seq] = min(_pending(seq), left)

    def _admit(self, rows: dict[Sequence, int]) -> None:
        """New sequences join while rows, places and blocks for all their committed tokens are there."""
        for seq in [s for s in self.waiting if not _waits_for_leader(s)]:
            left = self._left(rows)
            if not left or len(self.running) >= self._config.max_sequences:
                break
            self.cache.attach(seq)
            if not self.cache.grow(seq, seq.num_tokens):
                self.cache.free(seq)
                break
            self.waiting.remove(seq)
            self.running.append(seq)
            seq.status = Status.RUNNING
            rows[seq] = min(_pending(seq), left)

    def _with_drafts(self, rows: dict[Sequence, int]) -> Iterator[tuple[Sequence, int]]:
        """Add drafted rows. Where rows are left over, every sequence in this pass reaches its last committed token."""
        left = self._left(rows)
        for seq, count in rows.items():
            drafted = 0
            if seq.draft and left:
                want = seq.num_tokens + min(len(seq.draft), left)
                drafted = max(0, self.cache.grow_into_empty(seq, want) - seq.num_tokens)
            left -= drafted
            yield seq, count + drafted

    def _chunk(self, seq: Sequence, count: int) -> Chunk:
        pending = _pending(seq)
        drafted = max(0, count - pending)
        draft = seq.draft.cut(drafted) if drafted else NO_DRAFT
        committed = seq.tokens[seq.num_computed : seq.num_computed + min(count, pending)]
        sampled = 1 + drafted if count >= pending else 0
        return Chunk(seq, seq.num_computed, (*committed, *draft.tokens), sampled, draft)

    def _room_for(self, seq: Sequence) -> bool:
        """Find a block for one more row, preempting sequences younger than `seq` while none is free."""
        while not self.cache.grow(seq, seq.num_computed + 1):
            youngest = self.running[-1]
            if youngest is seq:
                return False
            self._preempt(youngest)
        return True

    def _preempt(self, seq: Sequence) -> None:
        self.preemptions += 1
        self.running.remove(seq)
        self.cache.free(seq)
        seq.status = Status.WAITING
        first = next((i for i, s in enumerate(self.waiting) if s.priority >= seq.priority), len(self.waiting))
        self.waiting.insert(first, seq)


def _pending(seq: Sequence) -> int:
    """Committed tokens that are not in the cache."""
    return seq.num_tokens - seq.num_computed


def _waits_for_leader(seq: Sequence) -> bool:
    """A further choice waits until its prompt was computed once, by choice 0, and takes the blocks from there."""
    leader = seq.leader
    if leader is None or leader.status is Status.FINISHED:
        return False
    return seq.num_output == 0 and leader.num_output == 0

"""Who runs in the next pass, with how many rows, and what a pass's result means for them.

There is no prefill or decode phase: `num_computed` chases the committed tokens plus the draft, and chunked prefill,
prefix hits, verification and recomputing after a preemption are that one case. A pass has `max_batch_tokens` rows,
given out in this order:

    1. one committed row for each sequence that only lacks its last token     (nobody waits for a draft or a prompt)
    2. prompts, running and new, in fair shares by `cache_salt` (`fairness`); within a salt the oldest first
    3. drafts, from empty blocks only: they never evict, preempt or delay a committed row

When a committed row finds no block, the youngest sequence is preempted: its blocks go, its tokens and draft stay. The
same happens to the youngest of a salt that holds more places than its part when another salt's sequence has none.
Knows no model and no text.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator

from inference.config import EngineConfig
from inference.engine.fairness import fair_shares, gives_way
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
        self._turns = 0
        self._served: dict[str, int] = {}
        """Salt → the turn in which it last got rows; only salts with sequences here."""

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
        """In rounds, since a salt may leave rows of its share: blocks or places are missing, or a prefix was known."""
        given, may_displace = -1, True
        while given != sum(rows.values()):
            given = sum(rows.values())
            for salt, share in fair_shares(self._wanted(rows), self._left(rows)).items():
                self._spend(salt, share, rows, may_displace)
            may_displace = False  # from here on rows only grow, so the rounds come to an end
        for salt in dict.fromkeys(seq.cache_salt for seq in rows):
            self._turns += 1
            self._served[salt] = self._turns

    def _wanted(self, rows: dict[Sequence, int]) -> dict[str, int]:
        """Salt → rows that its prompts could use in this pass, the salt that waited longest for some first."""
        wanted: Counter[str] = Counter()
        for seq in self.running:
            wanted[seq.cache_salt] += _pending(seq) - rows.get(seq, 0) if _pending(seq) > 1 else 0
        for seq in self._ready():
            wanted[seq.cache_salt] += seq.num_tokens
        self._served = {salt: self._served.get(salt, 0) for salt in wanted}
        return {salt: wanted[salt] for salt in sorted(wanted, key=lambda salt: self._served[salt])}

    def _spend(self, salt: str, share: int, rows: dict[Sequence, int], may_displace: bool) -> None:
        """Give a salt's share to its running prompts, then to its next sequences."""
        for seq in [s for s in self.running if s.cache_salt == salt and _pending(s) > 1]:
            more = min(_pending(seq) - rows.get(seq, 0), share)
            if more:
                rows[seq] = rows.get(seq, 0) + more
                share -= more
        for seq in [s for s in self._ready() if s.cache_salt == salt]:
            if not share or not self._admit(seq, rows, may_displace):
                return
            rows[seq] = min(_pending(seq), share)
            share -= rows[seq]

    def _ready(self) -> list[Sequence]:
        return [seq for seq in self.waiting if not _waits_for_leader(seq)]

    def _admit(self, seq: Sequence, rows: dict[Sequence, int], may_displace: bool) -> bool:
        """Join the running if there is a place, and blocks for what is committed; another salt may have to give way."""
        if not self._fits(seq):
            displaced = self._displaced_by(seq) if may_displace else []
            for other in displaced:
                rows.pop(other, None)
                self._preempt(other)
            if not displaced or not self._fits(seq):
                return False
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.status = Status.RUNNING
        return True

    def _fits(self, seq: Sequence) -> bool:
        return len(self.running) < self._config.max_sequences and self._take_blocks(seq)

    def _take_blocks(self, seq: Sequence) -> bool:
        self.cache.attach(seq)
        if self.cache.grow(seq, seq.num_tokens):
            return True
        self.cache.free(seq)
        return False

    def _displaced_by(self, seq: Sequence) -> list[Sequence]:
        """The youngest of the salts that should give way, as many as make the room; none where that is not enough."""
        missing = self.cache.missing(seq, seq.num_tokens) - self.cache.num_free
        counts = Counter(s.cache_salt for s in self.running)
        displaced: list[Sequence] = []
        while missing > 0 or len(self.running) - len(displaced) >= self._config.max_sequences:
            loser = gives_way(counts, seq.cache_salt)
            if loser is None:
                return []
            youngest = next(s for s in reversed(self.running) if s.cache_salt == loser and s not in displaced)
            displaced.append(youngest)
            counts[loser] -= 1
            missing -= len(youngest.blocks)
        return displaced

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

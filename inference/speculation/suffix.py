"""Suffix drafting: what followed where the longest suffix of the sequence stood before.

    own       the request's own prompt and output
    pool      scope `tenant` alone: outputs of the same cache salt that ended here, the latest `POOL` tokens of them

The longer of the two matches wins, of equal ones the sequence's own. A match of m tokens vouches for `factor` × m
more (SuffixDecoding, Oliaro et al. 2024). Under scope `request`, the default, no request learns from another; nothing
is ever shared between salts.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.config import SuffixConfig
from inference.speculation.proposer import NO_DRAFT, DraftBatch, DraftItem, Proposal
from inference.speculation.suffix_automaton import ROOT, Match, SuffixAutomaton

POOL = 65_536
"""Tokens of a salt's pool, in two halves: the older one goes when the newer one is full."""
POOLS = 64
"""Salts with a pool: the one that drafted least recently goes."""
NO_TOKEN = -1


@dataclass(slots=True)
class Pool:
    """What a salt said lately. Readers keep the half they read."""

    older: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    newer: SuffixAutomaton = field(default_factory=SuffixAutomaton)

    def add(self, output: Sequence[int]) -> None:
        if len(self.newer.text) + len(output) >= POOL // 2:
            self.older, self.newer = self.newer, SuffixAutomaton()
        self.newer.extend([*output[: POOL // 2], NO_TOKEN])


@dataclass(slots=True)
class Reader:
    """A place in an automaton of other texts."""

    automaton: SuffixAutomaton
    state: int = ROOT
    matched: int = 0

    def read(self, tokens: Sequence[int]) -> Match:
        for token in tokens:
            self.state, self.matched = self.automaton.step(self.state, self.matched, token)
        return self.automaton.at(self.state, self.matched)


@dataclass(slots=True)
class Memory:
    """What is known of one sequence."""

    own: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    readers: list[Reader] = field(default_factory=list)


class SuffixProposer:
    name = "suffix"

    def __init__(self, config: SuffixConfig) -> None:
        self._config = config
        self._pools: OrderedDict[str, Pool] = OrderedDict()

    def propose(self, batch: DraftBatch) -> list[Proposal]:
        return [self._draft(item) for item in batch.items]

    def finish(self, item: DraftItem) -> None:
        """The sequence ended: its output joins its salt's pool, where the scope says so."""
        if self._config.scope == "tenant":
            self._pool(item.cache_salt).add(item.tokens[item.prompt_len :])

    def _draft(self, item: DraftItem) -> Proposal:
        memory = item.memory.get(self.name)
        if memory is None:
            memory = item.memory[self.name] = Memory(readers=self._readers(item))
        new = item.tokens[len(memory.own.text) :]
        memory.own.extend(new)
        found = [(memory.own.match, memory.own), *((reader.read(new), reader.automaton) for reader in memory.readers)]
        match, automaton = max(found, key=lambda one: one[0].length)
        if match.length < self._config.min_match:
            return NO_DRAFT
        most = min(item.max_tokens, self._config.length or item.max_tokens, int(self._config.factor * match.length))
        tokens = following(automaton.text, match.behind, most)
        return Proposal(tokens, self.name) if tokens else NO_DRAFT

    def _readers(self, item: DraftItem) -> list[Reader]:
        if self._config.scope != "tenant":
            return []
        pool = self._pool(item.cache_salt)
        return [Reader(half) for half in (pool.newer, pool.older) if half.text]

    def _pool(self, salt: str) -> Pool:
        pool = self._pools.setdefault(salt, Pool())
        self._pools.move_to_end(salt)
        if len(self._pools) > POOLS:
            self._pools.popitem(last=False)
        return pool


def following(text: Sequence[int], start: int, length: int) -> tuple[int, ...]:
    """`length` tokens of `text` from `start` on, at most up to the end of an output; a text's own end goes round."""
    run = tuple(text[start : start + length])
    if NO_TOKEN in run:
        return run[: run.index(NO_TOKEN)]
    return (run * (length // len(run) + 1))[:length] if run else ()

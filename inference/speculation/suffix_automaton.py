"""A suffix automaton of a growing text: where did the longest suffix of it stand before?

    text     … a b c d e … x a b c ·          state: the suffixes that end at the same places
                     └ end                    link:  the longest suffix that also ends somewhere else
               └─ 3 ─┘                        match: (3, behind the earlier c)

Extending it by a token takes amortised constant time (Blumer et al. 1985, «The smallest automaton recognizing the
subwords of a text»). Knows token ids only; negative ones may separate texts, since no text holds them.
"""

from collections.abc import Iterable
from typing import NamedTuple

ROOT = 0
REFRESHED = 4
"""Links up which an end is renewed: the longest matches know their latest place, short ones some place."""


class Match(NamedTuple):
    """`length` tokens that stand both at the end of what was read and before `behind`."""

    length: int
    behind: int


NO_MATCH = Match(0, 0)


class SuffixAutomaton:
    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.text: list[int] = []
        self.match = NO_MATCH
        """The longest suffix of the text that stood in it before."""
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._behind = [0]
        self._last = ROOT
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._push(token)

    def step(self, state: int, matched: int, token: int) -> tuple[int, int]:
        """Read one token of another text: (state, tokens matched) → the same after it.

        A state that was split since then is found again by its links.
        """
        while state != ROOT and matched <= self._length[self._link[state]]:
            state = self._link[state]
        while state != ROOT and token not in self._next[state]:
            state = self._link[state]
            matched = self._length[state]
        following = self._next[state].get(token)
        return (ROOT, 0) if following is None else (following, matched + 1)

    def at(self, state: int, matched: int) -> Match:
        """Where the `matched` tokens that led to `state` stand in the text."""
        return Match(matched, self._behind[state]) if matched else NO_MATCH

    def _push(self, token: int) -> None:
        self.text.append(token)
        new = self._state({}, self._length[self._last] + 1, len(self.text))
        state = self._last
        while state != -1 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        self._link[new] = ROOT if state == -1 else self._shared(state, token)
        self._last = new
        self._remember(self._link[new])

    def _shared(self, state: int, token: int) -> int:
        """The state of `state`'s longest suffix and `token`, split off where longer ones go with it."""
        following = self._next[state][token]
        length = self._length[state] + 1
        if self._length[following] == length:
            return following
        clone = self._state(dict(self._next[following]), length, self._behind[following])
        self._link[clone] = self._link[following]
        self._link[following] = clone
        while state != -1 and self._next[state].get(token) == following:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _remember(self, state: int) -> None:
        self.match = self.at(state, self._length[state])
        for _ in range(REFRESHED):
            if state == ROOT:
                return
            self._behind[state] = len(self.text)
            state = self._link[state]

    def _state(self, following: dict[int, int], length: int, behind: int) -> int:
        self._next.append(following)
        self._link.append(ROOT)
        self._length.append(length)
        self._behind.append(behind)
        return len(self._link) - 1

"""Where in its prediction a sequence is: a pure function of the tokens it has emitted.

    prediction   a b c d e f g h …            synced:   the next token is expected at `at`
    emitted      a b X Y d e ·                X: diverged, `good` stays behind b
                         └┬┘ └ at = f         (d, e) occurs at or after `good`: synced again

A sync is *failed* when the very next token contradicts it. Four failed in a row, and the next sync asks for four
equal tokens instead of two; eight, and it looks away for a while, then looks again: stale text costs next to
nothing, and no run of failures is final. It follows every emitted token, whoever drafted it.
"""

from bisect import bisect_left
from collections.abc import Sequence

from inference.sequence import Prediction, Spelling
from inference.speculation.layout import Layout
from inference.speculation.reference import Reference

EASY, STRICT, HARD = 2, 3, 4
"""Equal tokens that make a sync: normally, for tenants who pay for rejected tokens, after `DOUBT` failures."""
DOUBT, PAUSE = 4, 8
"""Failed syncs in a row before syncing gets harder, and before it pauses."""
CONFIRMED = 8
"""Tokens followed in a row that make the place a good one, to look for the next sync from."""
LONGEST_PAUSE = 64


def needed(failed: int, strict: bool) -> int:
    """How many equal tokens make a sync after `failed` failed ones."""
    return HARD if failed >= DOUBT else STRICT if strict else EASY


def pause(failed: int) -> int:
    """For how many tokens to look away after `failed` failed syncs: 16, 32, 64, 64, …"""
    return 0 if failed < PAUSE else min(LONGEST_PAUSE, 16 << min(failed - PAUSE, 8))


class Pointer:
    """Follows one sequence through the spellings of its prediction. Starts synced, at the first token."""

    def __init__(self, prediction: Prediction, prompt_len: int, strict: bool) -> None:
        self.at: int | None = 0
        """Where the next token is expected; None: not synced."""
        self._references = [Reference(spelling) for spelling in prediction.spellings]
        self._current = 0
        self._strict = strict
        self._first = self._fed = prompt_len
        self._run = 1  # a start that does not fit is no failed sync
        self._failed = 0
        self._good = 0
        self._resume = 0
        self._layout = None if prediction.respeller is None else Layout(prediction.respeller)

    @property
    def reference(self) -> Reference:
        return self._references[self._current]

    def follow(self, tokens: Sequence[int]) -> None:
        """Take the tokens that were emitted since the last call."""
        for index in range(self._fed, len(tokens)):
            if self.at is not None:
                self._advance(tokens[index], index)
            if self._layout is not None and (spelling := self._layout.follow(tokens[index])):
                self._respell(spelling)
            if self.at is None and index >= self._resume:
                self._sync(tokens, index + 1)
        self._fed = len(tokens)

    def _advance(self, token: int, index: int) -> None:
        assert self.at is not None
        ids = self.reference.ids
        if self.at < len(ids) and ids[self.at] == token:
            self.at += 1
            self._run += 1
            self._failed = 0
            return
        if self._run == 0:
            self._failed += 1
            self._resume = index + pause(self._failed)
        if self._run >= CONFIRMED:
            self._good = self.at
        self.at = None

    def _respell(self, spelling: Spelling) -> None:
        """Go on in another spelling; the earlier ones are still searched after it."""
        self._references.append(Reference(spelling))
        self._good = self._place(len(self._references) - 1)
        self._current, self.at = len(self._references) - 1, None
        self._failed = self._resume = 0

    def _sync(self, tokens: Sequence[int], end: int) -> None:
        """Find the last emitted tokens in the current spelling, else in another."""
        n = needed(self._failed, self._strict)
        if end - n < self._first:
            return
        gram = tuple(tokens[end - n : end])
        for step in range(len(self._references)):
            candidate = (self._current + step) % len(self._references)
            near = self._good if step == 0 else self._place(candidate)
            position = self._references[candidate].find(gram, near)
            if position is not None:
                self._current, self._good, self.at, self._run = candidate, near, position, 0
                return

    def _place(self, candidate: int) -> int:
        """The good place, in another spelling."""
        here = self.reference.origins
        origin = here[self._good] if self._good < len(here) else here[-1] + 1
        return bisect_left(self._references[candidate].origins, origin)

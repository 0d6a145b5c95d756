"""A spelling of the prediction that can be searched: where do the last n emitted tokens occur in it?

    ids         7  3  9  4  3  9 …
    after (2)   (3, 9) → [3, 6]        positions just behind each occurrence, ascending, if anything follows there

The index of n-grams is built once for each n that is asked for, and only then.
"""

from bisect import bisect_left
from collections.abc import Sequence

from inference.sequence import Spelling


class Reference:
    """Knows the tokens of one spelling and nothing of what was emitted."""

    def __init__(self, spelling: Spelling) -> None:
        self.ids = spelling.ids
        self.origins = spelling.origins
        self._after: dict[int, dict[tuple[int, ...], list[int]]] = {}

    def find(self, gram: Sequence[int], near: int) -> int | None:
        """The position behind the nearest occurrence of `gram` at or after `near`, else the last one before it."""
        positions = self._index(len(gram)).get(tuple(gram))
        if positions is None:
            return None
        ahead = bisect_left(positions, near)
        return positions[ahead] if ahead < len(positions) else positions[-1]

    def _index(self, n: int) -> dict[tuple[int, ...], list[int]]:
        if n not in self._after:
            index: dict[tuple[int, ...], list[int]] = {}
            for end, gram in enumerate(zip(*(self.ids[i:-1] for i in range(n)), strict=False), start=n):
                index.setdefault(gram, []).append(end)
            self._after[n] = index
        return self._after[n]

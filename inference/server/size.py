"""Is a text far too long? Found out without reading all of it: a legal body of 8 MB would hold a thread for a minute.

Slices are counted apart, and a cut between two may cost a token or save none; so only a count of twice the limit is
taken for proof, and what lies below is counted whole by the caller.
"""

from collections.abc import Callable, Iterable, Iterator

SLICE = 1 << 15
"""Characters."""

Encode = Callable[[str], list[int]]


def far_over(texts: Iterable[str], limit: int, encode: Encode) -> int | None:
    """Tokens counted when there were more than twice `limit`; None where there are fewer."""
    count = 0
    for piece in _slices(texts):
        count += len(encode(piece))
        if count > 2 * limit:
            return count
    return None


def _slices(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for start in range(0, len(text), SLICE):
            yield text[start : start + SLICE]

"""A prediction's text spelt anew, each token traced to where its first character stood in the text as given.

given      "\\tif x:\\n"         lines differ only in their leading blanks and their ends,
anew       "    if x:\\n"       so a character is found again by its line and its place behind the indentation
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from inference.sequence import Spelling


class Tokens(Protocol):
    """Text in, ids and the character range of each out, and back; special tokens are text."""

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]: ...

    def decode(self, ids: Sequence[int], /) -> str: ...


class LineRespeller:
    """Implements `sequence.Respeller`. `given`: where each token of `text` as given starts."""

    def __init__(self, text: str, given: Sequence[int], tokenizer: Tokens) -> None:
        self._text, self._given, self._tokenizer = text, given, tokenizer

    @cached_property
    def lines(self) -> list[str]:
        return self._text.splitlines(keepends=True)

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids))

    def respell(self, lines: Sequence[str]) -> Spelling:
        ids, offsets = self._tokenizer.encode_with_offsets("".join(lines))
        ours, theirs = _starts(self.lines), _starts(lines)
        origins = []
        for start, _ in offsets:
            line = bisect_right(theirs, start) - 1
            old, new = self.lines[line], lines[line]
            place = start - theirs[line] + _indent(old) - _indent(new)
            at = ours[line] + min(max(0, place), len(old) - 1)
            origins.append(max(0, bisect_right(self._given, at) - 1))
        return Spelling(tuple(ids), tuple(origins))


def _starts(lines: Sequence[str]) -> list[int]:
    return list(accumulate((len(line) for line in lines[:-1]), initial=0))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))

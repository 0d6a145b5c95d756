"""Stop strings, searched character by character, so that it never matters how a text was cut into tokens.

For each string one number says how many of its first characters the text ends in (Knuth, Morris and Pratt): a match
is a number that reaches the string's length, and the largest number is what must be held back.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopString:
    """`fallback[i]`: how much of the string still matches when the first i + 1 characters did and the next does not."""

    text: str
    fallback: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> "StopString":
        fallback = [0] * len(text)
        matched = 0
        for i in range(1, len(text)):
            while matched and text[i] != text[matched]:
                matched = fallback[matched - 1]
            matched += text[i] == text[matched]
            fallback[i] = matched
        return cls(text, tuple(fallback))

    def advance(self, matched: int, char: str) -> int:
        while matched and self.text[matched] != char:
            matched = self.fallback[matched - 1]
        return matched + (self.text[matched] == char)


class StopSearch:
    """Follows one text. After a match it must not be fed again."""

    def __init__(self, stops: Sequence[StopString]) -> None:
        self._stops = stops
        self._matched = [0] * len(stops)

    @property
    def held_back(self) -> int:
        """Length of the text's longest ending that may begin a stop string."""
        return max(self._matched, default=0)

    def feed(self, text: str) -> tuple[int, int] | None:
        """(characters read, length of the stop string) at the first completed one; of several, the first listed."""
        if not self._stops:
            return None
        for read, char in enumerate(text, start=1):
            for i, stop in enumerate(self._stops):
                self._matched[i] = stop.advance(self._matched[i], char)
                if self._matched[i] == len(stop.text):
                    return read, len(stop.text)
        return None

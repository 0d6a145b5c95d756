"""How the reply lays out the prediction's lines: watched line by line, and told when the layout changes.

A line of the reply that has the words of a line of the prediction, but other leading blanks than the layout so far
gives it, is a doubt. `AGREEING` doubts in a row that a rule explains change the layout to that rule, and so back to
`SAME`. A text that keeps its indentation is never touched, and one odd line changes nothing.
"""

from bisect import bisect_left
from collections import deque
from functools import cached_property

from inference.sequence import Respeller, Spelling
from inference.speculation.indent import SAME, Rule, rules, split_indent

AGREEING = 2
REMEMBERED = 8
"""Lines that choose between rules which explain the doubts alike: does a line that is not indented stay so?"""
MOST_CHANGES = 8
"""Of one sequence: spelling a long text anew takes some milliseconds."""


class Layout:
    """Fed every emitted token of one sequence."""

    def __init__(self, text: Respeller) -> None:
        self._text = text
        self._tokens: list[int] = []
        """Of the line that is being written; the first may still belong to the line before."""
        self._begun = 0
        """Characters of these tokens that belong to the line before."""
        self._place = 0
        self._rule = SAME
        self._doubts = 0
        self._seen: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)
        """Indentations of the latest lines, in the prediction and in the reply."""
        self._changes = 0

    def follow(self, token: int) -> Spelling | None:
        """The spelling to go on with, where the line that this token ends changes the layout."""
        self._tokens.append(token)
        piece = self._text.decode([token])
        if "\n" not in piece or self._changes == MOST_CHANGES:
            return None
        written = self._text.decode(self._tokens)[self._begun :]
        self._tokens, self._begun = [token], piece.rindex("\n") + 1
        changes = [change for line in written.splitlines(keepends=True) if (change := self._read(line))]
        return changes[-1] if changes else None

    def _read(self, line: str) -> Spelling | None:
        indent, content = split_indent(line)
        if not line.endswith("\n") or (given := self._given(content)) is None:
            return None
        self._seen.append((given, indent))
        self._doubts = self._doubts + 1 if self._rule.apply(given) != indent else 0
        if self._doubts < AGREEING or (rule := self._likeliest()) is None:
            return None
        return self._change(rule, "\r\n" if line.endswith("\r\n") else "\n")

    def _likeliest(self) -> Rule | None:
        """Of the rules that explain the latest doubts, the one that explains most lines."""
        seen = list(self._seen)
        explained = {rule: [rule.apply(given) == indent for given, indent in seen] for rule in rules(*seen[-1])}
        able = [rule for rule, told in explained.items() if all(told[-AGREEING:])]
        return max(able, key=lambda rule: sum(explained[rule]), default=None)

    def _change(self, rule: Rule, end: str) -> Spelling:
        self._rule = rule
        self._doubts = 0
        self._changes += 1
        return self._text.respell([_laid_out(line, rule, end) for line in self._text.lines])

    def _given(self, content: str) -> str | None:
        """The indentation of the prediction's nearest line with these words, at or after the last one found."""
        places = self._places.get(content)
        if not places:
            return None
        ahead = bisect_left(places, self._place)
        self._place = places[ahead] if ahead < len(places) else places[-1]
        return split_indent(self._text.lines[self._place])[0]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Words → the lines that have them, where they are words at all: a lone bracket may stand anywhere."""
        places: dict[str, list[int]] = {}
        for number, line in enumerate(self._text.lines):
            content = split_indent(line)[1]
            if any(map(str.isalnum, content)):
                places.setdefault(content, []).append(number)
        return places


def _laid_out(line: str, rule: Rule, end: str) -> str:
    body = line.rstrip("\r\n")
    blanks = body[: len(body) - len(body.lstrip(" \t"))]
    body = rule.apply(blanks) + body[len(blanks) :] if body.strip() else body
    return body + (end if line.endswith("\n") else "")

"""Control tokens as they look in a text, and how to tell the template's own from those that a user wrote."""

import re
from collections.abc import Iterator

from tokenizers import AddedToken


class ControlTokens:
    """The special tokens of one tokenizer."""

    def __init__(self, added: dict[int, AddedToken]) -> None:
        special = {token.content: (token_id, token) for token_id, token in added.items() if token.special}
        self._ids = {text: token_id for text, (token_id, _) in special.items()}
        longest_first = sorted(special, key=len, reverse=True)
        self._bare = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._in_template = re.compile("|".join(_with_spaces(special[text][1]) for text in longest_first) or "(?!)")

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self._ids.values())

    def id_of(self, text: str) -> int | None:
        return self._ids.get(text)

    def occur_in(self, text: str) -> bool:
        return self._bare.search(text) is not None

    def disguise(self, text: str, marker: str) -> str:
        """Put `marker` inside every control token, so that none is left, however they overlap."""
        while self.occur_in(text):
            text = self._bare.sub(lambda found: marker.join(found.group()), text)
        return text

    def split(self, text: str) -> Iterator[str | int]:
        """Text, id, text, id, …, text."""
        start = 0
        for found in self._in_template.finditer(text):
            yield text[start : found.start()]
            yield self._ids[found.group().strip()]
            start = found.end()
        yield text[start:]


def _with_spaces(token: AddedToken) -> str:
    """Some control tokens swallow the white space beside them."""
    before, after = (r"\s*" if swallows else "" for swallows in (token.lstrip, token.rstrip))
    return before + re.escape(token.content) + after

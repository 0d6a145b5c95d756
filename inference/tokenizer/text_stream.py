"""One choice's tokens becoming text (`sequence.Text`): whole characters only, cut at the first stop string.

tokens → characters (`Characters`) → released | held back (may begin a stop string) | never (a stop string on)
"""

from collections.abc import Sequence

import tokenizers
from tokenizers.decoders import DecodeStream

from inference.tokenizer.stop_strings import StopSearch, StopString

LONGEST_WAIT = 16
"""Tokens that may wait for their character before one looks whether there can be any: a character has four bytes."""


class Characters:
    """Token ids in, whole characters out; control tokens say nothing."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, control_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._control_ids = control_ids
        self._stream = DecodeStream(skip_special_tokens=True)
        self._last: list[int] = []
        """The tokens of the last characters that left: a decoder may look at what stands before."""
        self._waiting: list[int] = []

    def push(self, token_id: int) -> str:
        if token_id in self._control_ids:
            return ""
        self._waiting.append(token_id)
        text = self._step(token_id)
        if not text:
            return self._give_up()
        self._last, self._waiting = self._waiting, []
        return text

    def rest(self) -> str:
        """What still waits, decoded as it is: bytes that are no character become U+FFFD."""
        before, whole = (self._tokenizer.decode(ids) for ids in (self._last, self._last + self._waiting))
        rest = whole[len(before) :] if whole.startswith(before) else self._tokenizer.decode(self._waiting)
        self._last, self._waiting = self._last + self._waiting, []
        return rest

    def _step(self, token_id: int) -> str | None:
        try:
            return self._stream.step(self._tokenizer, token_id)
        except Exception:  # noqa: BLE001 - tokenizers raises no narrower class
            # Byte fallback spells a run of bytes anew when one of them turns out to be no character.
            self._stream = DecodeStream(self._waiting, skip_special_tokens=True)
            return self._tokenizer.decode(self._waiting)

    def _give_up(self) -> str:
        """Now and then, let go of tokens that no later byte can make a character of."""
        if len(self._waiting) % LONGEST_WAIT:
            return ""
        kept = next((n for n in (1, 2, 3) if self._parts_before(n)), None)
        if kept is None:
            return ""
        self._last, self._waiting = self._waiting[:-kept], self._waiting[-kept:]
        self._stream = DecodeStream(self._waiting, skip_special_tokens=True)
        return self._tokenizer.decode(self._last)

    def _parts_before(self, kept: int) -> bool:
        """Whether no character lies across the start of the last `kept` waiting tokens."""
        parts = self._waiting[:-kept], self._waiting[-kept:]
        return "".join(map(self._tokenizer.decode, parts)) == self._tokenizer.decode(self._waiting)


class TextStream:
    """`sequence.Text` over a tokenizer."""

    def __init__(self, characters: Characters, stops: Sequence[StopString] = ()) -> None:
        self._characters = characters
        self._search = StopSearch(stops)
        self._text = ""
        """Characters that have not left yet."""
        self._stopped = False

    def push(self, token_id: int) -> bool:
        if not self._stopped:
            self._append(self._characters.push(token_id))
        return self._stopped

    def take(self) -> str:
        return self._leave(len(self._text) if self._stopped else len(self._text) - self._search.held_back)

    def finish(self) -> str:
        if not self._stopped:
            self._append(self._characters.rest())
            self._stopped = True
        return self._leave(len(self._text))

    def _append(self, text: str) -> None:
        match = self._search.feed(text)
        if match:
            read, length = match
            self._stopped = True
            self._text = (self._text + text[:read])[:-length]
        else:
            self._text += text

    def _leave(self, length: int) -> str:
        text, self._text = self._text[:length], self._text[length:]
        return text

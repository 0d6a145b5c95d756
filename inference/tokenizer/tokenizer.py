"""The tokenizer of one model, on the `tokenizers` library; knows no torch and no transformers.

Two readings of the same tokenizer: `control` sees control tokens in a text, `plain` sees only characters. What a user
wrote is read by `plain`; `control` reads a rendered conversation in which no user wrote a control token's text.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from inference.protocol import ChatMessage, EngineError
from inference.tokenizer.chat_template import ChatTemplate
from inference.tokenizer.control_tokens import ControlTokens
from inference.tokenizer.folder import TokenizerFolder
from inference.tokenizer.stop_strings import StopString
from inference.tokenizer.text_stream import Characters, TextStream

ROLES = {"developer": "system"}
"""Roles that templates know by an older name."""


class Tokenizer:
    """Safe to use from several threads."""

    def __init__(
        self, tokenizer_json: str, template: ChatTemplate | None = None, eos_token_ids: frozenset[int] = frozenset()
    ) -> None:
        self._control, self._plain = (_load(tokenizer_json) for _ in range(2))
        self._plain.encode_special_tokens = True
        self._control_tokens = ControlTokens(self._control.get_added_tokens_decoder())
        self._template = template
        self.eos_token_ids = eos_token_ids

    @classmethod
    def from_folder(cls, path: Path) -> "Tokenizer":
        folder = TokenizerFolder(path)
        named, source = folder.named_tokens, folder.chat_template
        tokenizer = cls(folder.tokenizer_json, ChatTemplate(source, named) if source else None)
        eos = tokenizer._control_tokens.id_of(named.get("eos_token", ""))
        tokenizer.eos_token_ids = folder.eos_token_ids | ({eos} if eos is not None else set())
        return tokenizer

    @property
    def vocab_size(self) -> int:
        return self._plain.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """As text: control tokens are only characters, and none is added."""
        return self._plain.encode(text, add_special_tokens=False).ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The same, with the characters (start, end) that each token stands for."""
        encoding = self._plain.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Control tokens say nothing."""
        return self._plain.decode(ids, skip_special_tokens=True)

    def text(self, stop: tuple[str, ...] = ()) -> TextStream:
        """A new stream of text that ends at the first of these strings; empty ones are ignored."""
        stops = [StopString.of(text) for text in stop if text]
        return TextStream(Characters(self._plain, self._control_tokens.ids), stops)

    def prompt(self, text: str) -> list[int]:
        """A text to go on from, begun as the model's tokenizer begins one."""
        self._require_spellable(self.encode(text), text, "prompt")
        return self._plain.encode(text, add_special_tokens=True).ids

    def chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """A conversation up to where the assistant speaks. Raises EngineError where the template refuses it."""
        if self._template is None:
            told = "This model has no chat template. Send the text as `prompt` to the completions route instead."
            raise EngineError(400, "no_chat_template", told, "messages")
        turns = [ChatMessage(role=ROLES.get(m.role, m.role), content=m.content) for m in messages]
        if any(self._control_tokens.occur_in(text) for turn in turns for text in (turn.role, turn.content)):
            return self._chat_with_disguise(self._template, turns)
        return self._control.encode(self._template.render(turns), add_special_tokens=False).ids

    def _chat_with_disguise(self, template: ChatTemplate, turns: Sequence[ChatMessage]) -> list[int]:
        """Render with a mark inside whatever looks like a control token; those without are the template's own."""
        marker = "".join(chr(0xF0000 + secrets.randbelow(0xFFFD)) for _ in range(4))
        rendered = template.render([self._disguised(turn, marker) for turn in turns])
        ids: list[int] = []
        for part in self._control_tokens.split(rendered):
            if isinstance(part, int):
                ids.append(part)
            elif part:
                ids.extend(self._continue(part.replace(marker, ""), first=not ids))
        return ids

    def _disguised(self, turn: ChatMessage, marker: str) -> ChatMessage:
        role, content = (self._control_tokens.disguise(text, marker) for text in (turn.role, turn.content))
        return ChatMessage(role=role, content=content)

    def _continue(self, text: str, first: bool) -> list[int]:
        """Encode a part of a longer text: some tokenizers would put a space before it."""
        ids = self.encode(text)
        self._require_spellable(ids, text, "messages")
        if first:
            return ids
        newline, joined = self.encode("\n"), self.encode("\n" + text)
        return joined[len(newline) :] if joined[: len(newline)] == newline else ids

    def _require_spellable(self, ids: Sequence[int], text: str, param: str) -> None:
        """A tokenizer that spells a control token's text by the token itself cannot take that text as text."""
        for token_id in self._control_tokens.ids.intersection(ids):
            token = self._plain.id_to_token(token_id)
            if token and token in text:
                told = f"This model's tokenizer cannot spell {token!r} as text; send it in another form."
                raise EngineError(400, "unspellable_text", told, param)


def _load(tokenizer_json: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

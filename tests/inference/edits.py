"""Real file edits as token ids: the rows of tests/data and the tokenizer that the default model has."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tokenizers

DATA = Path(__file__).parents[1] / "data"
CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class Edit:
    """One row: the file as the client has it, and as it becomes."""

    id: str
    instruction: str
    before: str
    after: str

    @property
    def prompt(self) -> str:
        task = "Rewrite the whole file with this change. Output only the code."
        return f"{self.instruction}\n{task}\n```python\n{self.before}\n```"


class TextTokenizer:
    """Text in, ids out; what looks like a special token is text."""

    def __init__(self) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(DATA / "smollm2_tokenizer.json"))
        self._tokenizer.encode_special_tokens = True
        self.vocab_size = self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.encode_with_offsets(text)[0]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


@cache
def text_tokenizer() -> TextTokenizer:
    return TextTokenizer()


@cache
def edits(name: str) -> tuple[Edit, ...]:
    """The rows of `tests/data/<name>.jsonl`, in order."""
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = (json.loads(line) for line in lines)
    return tuple(Edit(row["id"], row["instruction"], row["before"], row["after"]) for row in rows)


@cache
def fitting(name: str) -> tuple[Edit, ...]:
    """Those whose prompt and output fit the context together."""
    encode = text_tokenizer().encode
    return tuple(e for e in edits(name) if len(encode(e.prompt)) + len(encode(e.after)) <= CONTEXT)

"""What a Hugging Face model folder says about text: its tokenizer files, its chat template, its end-of-text ids."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class TokenizerFolder:
    """Reads; decides nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._config = self._json("tokenizer_config.json")
        self._special_tokens = self._json("special_tokens_map.json")

    @property
    def tokenizer_json(self) -> str:
        file = self._path / "tokenizer.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: the engine needs a folder with a fast tokenizer")
        return file.read_text(encoding="utf-8")

    @property
    def chat_template(self) -> str | None:
        """The file of its own wins over the one inside `tokenizer_config.json`, as in transformers."""
        file = self._path / "chat_template.jinja"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        template = self._config.get("chat_template")
        if isinstance(template, list):
            named = {entry["name"]: entry["template"] for entry in template}
            template = named.get("default")
        return template if isinstance(template, str) else None

    @property
    def named_tokens(self) -> dict[str, str]:
        """`bos_token` and the like, as templates use them."""
        found = {name: _content(self._config.get(name) or self._special_tokens.get(name)) for name in NAMED_TOKENS}
        return {name: text for name, text in found.items() if text}

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """What ends a generation by the model's own settings."""
        return frozenset(_ids(self._json("generation_config.json")) or _ids(self._json("config.json")))

    def _json(self, name: str) -> dict[str, Any]:
        file = self._path / name
        if not file.is_file():
            return {}
        values = json.loads(file.read_text(encoding="utf-8"))
        return values if isinstance(values, dict) else {}


def _content(token: Any) -> str | None:
    """Token files write a token as its text or as an object around it."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids(config: dict[str, Any]) -> list[int]:
    return list(_each_id(config.get("eos_token_id")))


def _each_id(value: Any) -> Iterator[int]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int):
            yield item

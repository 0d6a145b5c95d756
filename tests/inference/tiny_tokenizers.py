"""Small real tokenizers, built on the spot: byte-level BPE, and SentencePiece-like BPE with byte fallback."""

import json
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

CONTROL = ("<|end|>", "<|im_start|>", "<|im_end|>", "<filename>")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MERGES = "h e|he l|hel l|hell o|w o|wo r|i m|n d|e nd|ð Ł|ðŁ ĺ|â Ģ|Ã ©|Ġ ðŁ"
"""ðŁ is half an emoji."""


def byte_level_json() -> str:
    """Every byte is a token; a few merges make longer ones, some of which end inside a character."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {text: i for i, text in enumerate((*CONTROL, *alphabet))}
    merges = [(left, right) for left, right in (merge.split() for merge in MERGES.split("|"))]
    vocab |= {left + right: len(vocab) + i for i, (left, right) in enumerate(merges)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL])
    return tokenizer.to_str()


def byte_tokenizer(pieces: Iterable[bytes]) -> tuple[tokenizers.Tokenizer, list[int]]:
    """A byte-level tokenizer with exactly these tokens, and their ids in order: any cut of any bytes."""
    spelled = [bytes_to_text(piece) for piece in pieces]
    vocab = {text: i for i, text in enumerate(dict.fromkeys(spelled))}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, [vocab[text] for text in spelled]


def bytes_to_text(piece: bytes) -> str:
    """GPT-2's printable character for each byte: itself where it is printable, else one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return "".join(table[byte] for byte in piece)


def byte_fallback_json() -> str:
    """Words begin with ▁; what is not in the vocabulary is spelled in bytes, as in Llama 2."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "c", "é", "ab", "▁a"]
    vocab = {text: i for i, text in enumerate(texts)}
    model = models.BPE(
        vocab=vocab, merges=[("a", "b"), ("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in ("<unk>", "<s>", "</s>")]
    )
    return tokenizer.to_str()


def write_folder(folder: Path, tokenizer_json: str, template: str | None = CHATML, eos: str = "<|im_end|>") -> Path:
    """A model folder as far as text goes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}), encoding="utf-8")
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder

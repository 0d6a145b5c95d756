"""A GGUF file becomes a transformers folder: safetensors in fp32, configuration, tokenizer, chat template.

Runs as a child process: python -m inference.model.convert FILE.gguf FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf: Path, folder: Path) -> None:
    """Write what `gguf` holds into `folder`."""
    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The weights are plain numbers by now, yet transformers still takes them for quantised and would not save them.
    del model.hf_quantizer
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, model_max_length=model.config.max_position_embeddings
    )
    _restore_pre_tokenizer(gguf, tokenizer)
    tokenizer.save_pretrained(folder)


def _restore_pre_tokenizer(gguf: Path, tokenizer: Any) -> None:
    """GGUF names its pre-tokenizer and transformers does not read the name: SmolLM splits off every digit first."""
    field = GGUFReader(gguf).fields.get("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))

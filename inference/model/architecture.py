"""Which models can be served exactly: told from the configuration alone, before any weight is read."""

import json
from pathlib import Path
from typing import Any

from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from inference.model.errors import ModelRefused

SOFTMAX_LAYERS = frozenset({"full_attention", "sliding_attention", "attention"})
MOVING_ROPE = frozenset({"dynamic", "longrope"})


def read_config(folder: Path) -> Any:
    """The model's configuration, once nothing in it stands against serving it."""
    if not (folder / "config.json").is_file():
        raise ModelRefused(f"{folder} has no config.json: give a folder in the transformers layout.")
    if "auto_map" in json.loads((folder / "config.json").read_text()):
        raise _refusal(folder.name, "it brings its own Python code, which is never run")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelRefused(f"{folder / 'config.json'} cannot be read: {error}") from error
    if reason := why_not(config):
        raise _refusal(f"{folder.name} ({config.model_type})", reason)
    return config


def why_not(config: Any) -> str | None:
    """The first reason against serving a model of this configuration, or None."""
    text = config.get_text_config()
    return _not_causal(config, text) or _wrong_backend(config) or _wrong_layers(text) or _wrong_positions(text)


def _not_causal(config: Any, text: Any) -> str | None:
    if getattr(config, "is_encoder_decoder", False) or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return "it is not a causal language model"
    if getattr(text, "use_bidirectional_attention", None) or getattr(text, "is_causal", True) is False:
        return "its attention looks ahead, so it is not a causal language model"
    if getattr(text, "is_decoder", None) is False:
        return "its is_decoder is off, so it is not a causal language model"
    return None


def _wrong_backend(config: Any) -> str | None:
    family = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    if getattr(family, "_is_stateful", False):
        return "it has recurrent layers, whose state cannot step back over a rejected draft"
    if not getattr(family, "_supports_attention_backend", False):
        return "its attention in transformers cannot be replaced (_supports_attention_backend is off)"
    return None


def _wrong_layers(text: Any) -> str | None:
    for number, kind in enumerate(getattr(text, "layer_types", None) or ()):
        if kind not in SOFTMAX_LAYERS:
            return f"its layer {number} is of kind {kind!r}, not softmax attention over the whole past or a window"
    return None


def _wrong_positions(text: Any) -> str | None:
    for rope in _ropes(text):
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind in MOVING_ROPE:
            return f"its RoPE is {kind!r}: angles change with the length, so keys in the cache would go stale"
        if "mrope_section" in rope:
            return "its positions have three axes (M-RoPE), and a text row has one"
    return None


def _ropes(text: Any) -> list[dict[str, Any]]:
    """One for the model, or one for each kind of layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    nested = [value for value in rope.values() if isinstance(value, dict)]
    return nested or [rope]


def _refusal(name: str, reason: str) -> ModelRefused:
    return ModelRefused(
        f"{name} cannot be served: {reason}. Choose a causal language model with softmax attention in every layer "
        "and fixed positions (Llama, Qwen2, Qwen3, Mistral, Gemma 2 and 3, Phi, Mixtral and their like)."
    )

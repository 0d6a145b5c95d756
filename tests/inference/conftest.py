"""Models for the tests: the real SmolLM2, and tiny random ones of several families."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from inference.models_catalog import DEFAULT_MODEL, ensure_model

REPOSITORY = Path(__file__).parents[2]

COMMON = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
UNTIED = {"tie_word_embeddings": False}
"""Tied, a random Gemma repeats its last token for ever."""
WINDOWED = {"sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 8}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "mistral": ("MistralConfig", {"sliding_window": 12}),
    "gemma2": ("Gemma2Config", {**WINDOWED, **UNTIED, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0}),
    "gemma3": ("Gemma3TextConfig", {**WINDOWED, **UNTIED, "query_pre_attn_scalar": 8}),
    "phi": ("PhiConfig", {}),
    "mixtral": ("MixtralConfig", EXPERTS),
    "gpt_oss": ("GptOssConfig", {**EXPERTS, **WINDOWED}),
}

MakeTiny = Callable[..., Path]


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The real model; made once, whichever test process comes first."""
    state = Path(os.environ.get("SPECGATE_TEST_MODELS", REPOSITORY / ".specgate"))
    return ensure_model(DEFAULT_MODEL, state)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> MakeTiny:
    """tiny_model(family, **configuration) → folder of a random model, whose weights are large enough to say things."""
    made: dict[str, Path] = {}

    def make(family: str = "llama", **configuration: Any) -> Path:
        key = repr((family, sorted(configuration.items())))
        if key not in made:
            made[key] = save_tiny(family, configuration, tmp_path_factory.mktemp(family))
        return made[key]

    return make


@pytest.fixture(scope="session")
def tiny_llama(tiny_model: MakeTiny) -> Callable[..., Path]:
    """tiny_llama(**configuration) → folder."""
    return lambda **configuration: tiny_model("llama", **configuration)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tests run side by side: threads that wait for each other would only slow them down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save_tiny(family: str, configuration: dict[str, Any], folder: Path) -> Path:
    name, special = FAMILIES[family]
    config = getattr(transformers, name)(**{**COMMON, "initializer_range": 0.3, **special, **configuration})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder

"""What loads says what it is; what cannot be served exactly is refused by name, with the reason."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from inference.model import attention
from inference.model.errors import ModelRefused
from inference.model.loader import LoadedModel, learn_layers, load_model
from inference.model.parity import probe
from tests.inference.conftest import COMMON, FAMILIES, MakeTiny

TinyLlama = Callable[..., Path]


def test_a_model_says_what_it_is(tiny_llama: TinyLlama) -> None:
    model = load_model(tiny_llama())
    assert (model.vocab_size, model.max_model_len, model.num_layers) == (97, 256, 2)
    assert (model.num_kv_heads, model.head_dim, model.bytes_per_token) == (2, 8, 2 * 2 * 16 * 4)
    assert (model.dtype, model.device.type, model.eos_token_ids) == (torch.float32, "cpu", frozenset({2}))


@pytest.mark.model
def test_smollm2_says_what_it_is(smollm2_folder: Path) -> None:
    model = load_model(smollm2_folder)
    assert (model.vocab_size, model.max_model_len, model.num_layers) == (49152, 8192, 30)
    assert (model.num_kv_heads, model.head_dim, model.eos_token_ids) == (3, 64, frozenset({2}))


def test_the_context_is_the_smaller_of_setting_and_model(tiny_llama: TinyLlama) -> None:
    assert load_model(tiny_llama(), max_model_len=100).max_model_len == 100
    assert load_model(tiny_llama(), max_model_len=9999).max_model_len == 256


def test_end_tokens_are_those_of_both_configurations(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_llama(), tmp_path / "model"))
    edit(folder / "generation_config.json", eos_token_id=[7, 9])
    assert load_model(folder).eos_token_ids == frozenset({2, 7, 9})


def test_the_revision_changes_with_weights_and_configuration(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    first = load_model(tiny_llama()).revision
    assert first == load_model(tiny_llama()).revision
    assert first != load_model(tiny_llama(rope_theta=500.0)).revision
    folder = Path(shutil.copytree(tiny_llama(), tmp_path / "model"))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert first != load_model(folder).revision


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_passes_the_probe_too(tiny_model: MakeTiny, family: str) -> None:
    assert load_model(tiny_model(family), dtype="bfloat16").dtype == torch.bfloat16


def test_the_layers_may_differ_in_shape_from_the_configuration(tmp_path: Path) -> None:
    """Multi-head latent attention (DeepSeek): keys and values come expanded, and of different widths."""
    config = transformers.DeepseekV3Config(
        **{**COMMON, "num_key_value_heads": 4},
        moe_intermediate_size=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=6,
        first_k_dense_replace=1,
        initializer_range=0.3,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    shape = load_model(tmp_path).layers[1]
    assert (shape.num_kv_heads, shape.key_dim, shape.value_dim) == (4, 12, 6)


ROPE: dict[str, dict[str, Any]] = {
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
    "longrope": {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "dynamic RoPE": ("LlamaConfig", {"rope_parameters": ROPE["dynamic"]}, "its RoPE is 'dynamic'"),
    "longrope": ("LlamaConfig", {"rope_parameters": ROPE["longrope"]}, "its RoPE is 'longrope'"),
    "recurrent": ("MambaConfig", {}, "recurrent layers"),
    "hybrid": ("Qwen3NextConfig", {}, "recurrent layers"),
    "linear layer": ("Qwen3Config", {"layer_types": ["full_attention", "linear_attention"]}, "layer 1 is of kind"),
    "chunked": ("Llama4TextConfig", {"layer_types": ["chunked_attention", "full_attention"]}, "layer 0 is of kind"),
    "encoder": ("BertConfig", {}, "is_decoder is off"),
    "encoder and decoder": ("T5Config", {}, "not a causal language model"),
    "looks ahead": ("Gemma3TextConfig", {"use_bidirectional_attention": True}, "looks ahead"),
}


@pytest.mark.parametrize(("config", "settings", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_exact_is_refused_by_name(
    config: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    folder = tmp_path / "some-model"
    sizes = {"num_hidden_layers": 2} if "layer_types" in settings else {}
    getattr(transformers, config)(**sizes, **settings).save_pretrained(folder)
    with pytest.raises(ModelRefused, match=f"some-model .*cannot be served: .*({reason}).* Choose a causal language"):
        load_model(folder)


def test_three_axes_of_position_are_refused(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_llama(), tmp_path / "model"))
    edit(
        folder / "config.json", rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    )
    with pytest.raises(ModelRefused, match="M-RoPE"):
        load_model(folder)


def test_several_devices_are_refused(tiny_llama: TinyLlama) -> None:
    with pytest.raises(ModelRefused, match="tensor_parallel=2: one engine owns one device"):
        load_model(tiny_llama(), tensor_parallel=2)


def test_code_from_the_folder_is_never_run(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_llama(), tmp_path / "model"))
    edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "evil.Model"})
    (folder / "evil.py").write_text("raise SystemExit")
    with pytest.raises(ModelRefused, match="its own Python code"):
        load_model(folder)


def test_an_empty_folder_and_missing_weights_say_what_is_missing(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"has no config\.json"):
        load_model(tmp_path)
    folder = Path(shutil.copytree(tiny_llama(), tmp_path / "model"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelRefused, match="safetensors"):
        load_model(folder)


def test_an_unknown_dtype_lists_the_known(tiny_llama: TinyLlama) -> None:
    with pytest.raises(ModelRefused, match="'int3': give one of float32, bfloat16, float16"):
        load_model(tiny_llama(), dtype="int3")


def spoil(model: LoadedModel, name: str, wrong: Any) -> None:
    """Give every attention layer a wrong attribute, but only while it calls our attention."""

    def before(module: Any, *_: Any) -> None:
        if not hasattr(module, "right"):
            module.right = getattr(module, name)
        own = module.config._attn_implementation != attention.NAME
        setattr(module, name, module.right if own else wrong)

    for module in model.module.modules():
        if hasattr(module, "layer_idx") and hasattr(module, name):
            module.register_forward_pre_hook(before)


@pytest.mark.parametrize(("family", "name", "wrong"), [("llama", "scaling", 0.9), ("gemma2", "sliding_window", None)])
def test_the_probe_names_the_model_whose_attention_we_get_wrong(
    tiny_model: MakeTiny, family: str, name: str, wrong: Any
) -> None:
    """Gemma 2's window here is 100, far over the probe's length: it is narrowed for the probe."""
    model = load_model(tiny_model(family, **({"sliding_window": 100} if family == "gemma2" else {})))
    spoil(model, name, wrong)
    with pytest.raises(ModelRefused, match=r"\(\w+ForCausalLM\) cannot be served exactly: .* over 1e-03"):
        probe(model)


def test_the_probe_leaves_the_window_as_it_was(tiny_model: MakeTiny) -> None:
    module: Any = load_model(tiny_model("gemma3", sliding_window=100)).module
    assert module.config.sliding_window == 100
    assert [layer.self_attn.sliding_window for layer in module.model.layers] == [100, None]
    assert module.config._attn_implementation == attention.NAME


def test_every_load_is_probed(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    """Weights that give no number, say."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama())
    model.model.norm.weight.data.fill_(float("nan"))
    model.save_pretrained(tmp_path)
    with pytest.raises(ModelRefused, match="differ from its own attention's by nan"):
        load_model(tmp_path)


def test_a_model_some_of_whose_layers_do_not_attend_is_refused(tiny_llama: TinyLlama) -> None:
    module: Any = load_model(tiny_llama()).module
    module.model.layers[0].self_attn.layer_idx = 5
    with pytest.raises(ModelRefused, match=r"LlamaForCausalLM cannot be served: of its layers only \[1, 5\] attend"):
        learn_layers(module, torch.device("cpu"))


def edit(path: Path, **members: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))

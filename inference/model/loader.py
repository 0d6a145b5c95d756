"""A local folder becomes a model that is ready to serve, or is refused by name.

Three looks, each cheaper than a wrong answer: the configuration (`architecture`), one row through the model to learn
what each layer keeps of a token, and a parity probe against the model's own attention (`parity`).
"""

import hashlib
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from inference.model import attention
from inference.model.architecture import read_config
from inference.model.errors import ModelRefused
from inference.model.loaded_model import LoadedModel
from inference.model.packed_linear import pack_head
from inference.model.paging import LayerShape
from inference.model.parity import probe

__all__ = ["LoadedModel", "load_model"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(
    folder: Path,
    device: str = "cpu",
    dtype: str | None = None,
    max_model_len: int | None = None,
    tensor_parallel: int = 1,
) -> LoadedModel:
    """Load, look, probe. Raises ModelRefused."""
    if tensor_parallel != 1:
        raise ModelRefused(
            f"{folder.name} cannot be served with tensor_parallel={tensor_parallel}: one engine owns one device, since "
            "the cache and its block table are not split by heads. Start one engine a device instead."
        )
    config = read_config(folder)
    place, number = torch.device(device), _dtype(dtype, device, config)
    module = _read(folder, config, number).to(place)
    pack_head(module)
    text = config.get_text_config()
    limit = text.max_position_embeddings
    model = LoadedModel(
        module=module,
        folder=folder,
        revision=_revision(folder),
        vocab_size=text.vocab_size,
        max_model_len=min(max_model_len or limit, limit),
        layers=learn_layers(module, place),
        eos_token_ids=_eos_token_ids(module),
        dtype=number,
        device=place,
    )
    probe(model)
    return model


def _dtype(name: str | None, device: str, config: Any) -> torch.dtype:
    """fp32 on a CPU, else what the weights were saved in, if that is a half precision."""
    if name is not None:
        if name not in DTYPES:
            raise ModelRefused(f"Unknown dtype {name!r}: give one of {', '.join(DTYPES)}.")
        return DTYPES[name]
    if device == "cpu":
        return torch.float32
    saved = config.get_text_config().dtype
    return saved if saved in (torch.bfloat16, torch.float16) else torch.bfloat16


def _read(folder: Path, config: Any, dtype: torch.dtype) -> Any:
    attention.register()
    try:
        module = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation=attention.NAME,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    except (OSError, ValueError, ImportError) as error:
        raise ModelRefused(f"{folder.name} cannot be loaded: {error}") from error
    if "logits_to_keep" not in inspect.signature(module.forward).parameters:
        raise ModelRefused(
            f"{folder.name} cannot be served: {type(module).__name__} cannot keep only some rows' logits."
        )
    return module.eval().requires_grad_(False)


class ShapeRecorder:
    """Stands in for the cache once: attends to nothing, and notes what each layer would keep of a token."""

    def __init__(self) -> None:
        self.shapes: dict[int, LayerShape] = {}

    def attend(
        self, layer: int, query_1QTD: Tensor, key_1KTD: Tensor, value_1KTV: Tensor, rule: attention.Rule
    ) -> Tensor:
        self.shapes[layer] = LayerShape(key_1KTD.shape[1], key_1KTD.shape[-1], value_1KTV.shape[-1])
        return query_1QTD.new_zeros(1, query_1QTD.shape[2], query_1QTD.shape[1], value_1KTV.shape[-1])


@torch.inference_mode()
def learn_layers(module: nn.Module, device: torch.device) -> tuple[LayerShape, ...]:
    """What each layer keeps of a token, seen on one row."""
    recorder = ShapeRecorder()
    row = torch.zeros(1, 1, dtype=torch.int64, device=device)
    module(input_ids=row, position_ids=row, use_cache=False, pages=recorder)
    if sorted(recorder.shapes) != list(range(len(recorder.shapes))) or not recorder.shapes:
        raise ModelRefused(
            f"{type(module).__name__} cannot be served: of its layers only {sorted(recorder.shapes)} attend."
        )
    return tuple(recorder.shapes[layer] for layer in range(len(recorder.shapes)))


def _eos_token_ids(module: Any) -> frozenset[int]:
    """Both places name end tokens, and instruction-tuned models differ in which one is complete."""
    ids: set[int] = set()
    for source in (module.generation_config, module.config.get_text_config()):
        named = getattr(source, "eos_token_id", None)
        ids |= set(named) if isinstance(named, Iterable) else {i for i in (named,) if i is not None}
    return frozenset(ids)


def _revision(folder: Path) -> str:
    """Of the configuration, and of each weight file its size and both ends: a whole read of it would take minutes."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        size, end = path.stat().st_size, 1 << 20
        with path.open("rb") as file:
            digest.update(f"{path.name}:{size}".encode() + file.read(end))
            file.seek(max(0, size - end))
            digest.update(file.read(end))
    return digest.hexdigest()[:16]

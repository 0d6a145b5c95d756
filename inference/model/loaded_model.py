"""A model that is ready to serve, as a value."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inference.model.paging import LayerShape


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The module, which calls our attention, and what others need to know of it."""

    module: nn.Module = field(repr=False)
    folder: Path
    revision: str
    """Changes when the configuration or the weights do."""
    vocab_size: int
    max_model_len: int
    layers: tuple[LayerShape, ...] = field(repr=False)
    eos_token_ids: frozenset[int]
    dtype: torch.dtype
    device: torch.device

    @property
    def family(self) -> str:
        """The architecture, as the configuration names it."""
        config: Any = self.module.config
        return str(config.model_type)

    @property
    def weights_bytes(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.module.parameters())

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def num_kv_heads(self) -> int:
        return self.layers[0].num_kv_heads

    @property
    def head_dim(self) -> int:
        return self.layers[0].key_dim

    @property
    def bytes_per_token(self) -> int:
        """Cache that one token takes."""
        return sum(layer.num_numbers for layer in self.layers) * self.dtype.itemsize

"""A packed head says what the plain one said, and is packed only where it can be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inference.model.loader import load_model
from inference.model.packed_linear import PackedLinear

TinyLlama = Callable[..., Path]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 16, 70])
def test_it_computes_what_the_layer_computed(rows: int, bias: bool) -> None:
    torch.manual_seed(2)
    linear = nn.Linear(48, 101, bias=bias)
    x = torch.randn(1, rows, 48)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(x), linear(x), rtol=0, atol=1e-5)


def test_no_rows_give_no_logits() -> None:
    assert PackedLinear(nn.Linear(48, 101))(torch.empty(1, 0, 48)).shape == (1, 0, 101)


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_is_packed_and_the_embedding_stays(tiny_llama: TinyLlama, tied: bool) -> None:
    module: Any = load_model(tiny_llama(tie_word_embeddings=tied)).module
    assert isinstance(module.lm_head, PackedLinear)
    assert isinstance(module.model.embed_tokens, nn.Embedding)
    assert not any(name.startswith("lm_head") for name, _ in module.named_parameters()), "the plain head is let go of"


def test_half_precision_keeps_its_plain_head(tiny_llama: TinyLlama) -> None:
    module: Any = load_model(tiny_llama(), dtype="bfloat16").module
    assert type(module.lm_head) is nn.Linear

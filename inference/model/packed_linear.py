"""The output head with its weights laid out once for oneDNN, on a CPU in fp32.

`F.linear` lays weights out anew for each pass of a few rows. SmolLM2's head (49,152 × 576), milliseconds of one core
(Xeon, AVX-512): 1 row 9.4 → 10.0, 4 rows 21.5 → 11.0, 8 rows 34.2 → 12.7, 64 rows 44.2 → 31.5.

The head only. Every packed call costs about 0.1 ms before it computes, and packed layers are slower at one row: with
all 211 of them packed, a pass of one row took 120 ms instead of 85. A head tied to the embedding becomes a second
copy of that one matrix.
"""

from typing import Any

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """What the linear layer computed, from packed weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), 16)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return y


def pack_head(module: Any) -> None:
    """Pack the head of a causal language model, where this build of torch can and it pays."""
    head = module.get_output_embeddings()
    # Exactly nn.Linear: a subclass may compute something else.
    if type(head) is not nn.Linear or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    if head.weight.dtype == torch.float32 and head.weight.device.type == "cpu":
        module.set_output_embeddings(PackedLinear(head))

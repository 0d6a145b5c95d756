"""At every load: does the model say through our attention what it says through its own?

Two sequences, in chunks, packed into the same passes, one with scattered blocks, both well past the sliding window.
A wide window is narrowed for the probe, for both sides alike, so that the probe stays short.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from inference.config import EngineConfig
from inference.model import attention
from inference.model.errors import ModelRefused
from inference.model.loaded_model import LoadedModel
from inference.model.paging import Span
from inference.model.runner import Runner

WINDOW = 8
LENGTHS = (29, 23)
BLOCKS = ((3, 4, 5, 6, 7, 8, 9, 10), (2, 0, 1, 13, 12, 11))
"""Four positions a block: the first sequence lies in one run, the second is scattered."""
CUTS = ((0, 11), (11, 12), (12, 29)), ((0, 9), (9, 20), (20, 23))
"""Which positions of each sequence each pass computes."""
EXACT, HALF = 1e-3, 5e-2
"""Largest error allowed, as a share of the range of the row's logits: in fp32 for every row. In half precision for
three rows of four: rounding alone moves the rows of a mixture of experts whose router was nearly undecided."""


def probe(model: LoadedModel) -> None:
    """Raise ModelRefused where the two differ."""
    prompts = [[(7919 * i + 13 + 101 * k) % model.vocab_size for i in range(n)] for k, n in enumerate(LENGTHS)]
    with _narrow_window(model.module):
        theirs = torch.cat([_own_logits(model, prompt) for prompt in prompts])
        ours = torch.cat(_paged_logits(model, prompts))
    error = _error(ours, theirs, is_exact=model.dtype == torch.float32)
    tolerance = EXACT if model.dtype == torch.float32 else HALF
    if not error <= tolerance:
        raise ModelRefused(
            f"{model.folder.name} ({type(model.module).__name__}) cannot be served exactly: through the paged cache "
            f"its logits differ from its own attention's by {error:.2g} of their range, over {tolerance:.0e}. Its "
            "attention does something that inference/model/attention.py does not know; choose another model."
        )


def _paged_logits(model: LoadedModel, prompts: Sequence[list[int]]) -> list[Tensor]:
    """One tensor a prompt, all of its rows."""
    runner = Runner(model, EngineConfig(block_size=4, num_blocks=14))
    rows: list[list[Tensor]] = [[] for _ in prompts]
    for cuts in zip(*CUTS, strict=True):
        spans = [Span(p[a:b], a, blocks, b - a) for p, (a, b), blocks in zip(prompts, cuts, BLOCKS, strict=True)]
        logits = runner.run(spans).split_with_sizes([len(span.tokens) for span in spans])
        for mine, new in zip(rows, logits, strict=True):
            mine.append(new)
    return [torch.cat(mine) for mine in rows]


@torch.inference_mode()
def _own_logits(model: LoadedModel, prompt: list[int]) -> Tensor:
    module: Any = model.module
    module.set_attn_implementation("eager")
    try:
        logits: Tensor = module(input_ids=torch.tensor([prompt], device=model.device), use_cache=False).logits
    finally:
        module.set_attn_implementation(attention.NAME)
    return logits[0, :, : model.vocab_size].float()


def _error(ours_TV: Tensor, theirs_TV: Tensor, is_exact: bool) -> float:
    """The worst row's, or that of three rows of four; NaN where a row holds one."""
    range_T = theirs_TV.amax(-1) - theirs_TV.amin(-1)
    error_T = (ours_TV - theirs_TV).abs().amax(-1) / range_T
    return float(error_T.max() if is_exact or error_T.isnan().any() else error_T.quantile(0.75))


@contextmanager
def _narrow_window(module: nn.Module) -> Iterator[None]:
    """Wherever the model says its window, in configuration or layer, say `WINDOW` for a while."""
    owners: list[Any] = [owner for each in module.modules() for owner in (each, getattr(each, "config", None))]
    before = {id(owner): (owner, owner.sliding_window) for owner in owners if _is_wide(owner)}
    for owner, _ in before.values():
        owner.sliding_window = WINDOW
    try:
        yield
    finally:
        for owner, window in before.values():
            owner.sliding_window = window


def _is_wide(owner: Any) -> bool:
    return (getattr(owner, "sliding_window", None) or 0) > WINDOW

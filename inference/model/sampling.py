"""Logits become token ids: argmax(log p + g) over the tokens that survive the row's cuts.

    transforms (R, V) → temperature → top-k → top-p → noise for the survivors → the largest

Letters: R rows, V vocabulary, C candidates. g is the noise of (seed, choice, position, token id), so a row's token
depends on nothing but its own logits and parameters: not on its neighbours, not on what was drafted before it. A
temperature below 1e-5 is greedy; of equal logits the lowest id wins. The cuts keep whole ties: top-k every token no
worse than the k-th, top-p every token no worse than the last that is needed for the mass.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from inference.model.noise import Noise, gumbel
from inference.protocol import GREEDY_BELOW
from inference.sequence import SampleRow

INVALID = -1
"""Instead of a token id: the row held a NaN, or no finite number."""
CANDIDATES = (1024, 8192)
"""Sorted before all are: nearly every cut falls among the first, and a whole vocabulary takes longest."""
CUT_NUMBERS, OPEN_NUMBERS = 1 << 19, 1 << 16
"""Logits worked on at once on a CPU: of rows that are cut soon, and of rows whose every token needs noise."""

Transform = Callable[[Tensor, Sequence[SampleRow]], Tensor]
"""(R, V) logits, and whose they are → (R, V), each row by its own parameters and history. Must not write its input."""


def sample(
    logits: Tensor, rows: Sequence[SampleRow], transforms: Sequence[Transform] = (), noise: Noise = gumbel
) -> list[int]:
    """One token id a row."""
    assert logits.shape[0] == len(rows)
    if not rows:
        return []
    for transform in transforms:
        logits = transform(logits, rows)
    best_R, ids_R = logits.max(dim=-1)
    ids, is_valid = ids_R.tolist(), best_R.isfinite().tolist()
    drawing = [r for r, row in enumerate(rows) if is_valid[r] and row.sampling.temperature >= GREEDY_BELOW]
    for group in _groups(drawing, rows, logits):
        drawn = _draw(logits[group], [rows[r] for r in group], noise)
        for r, token in zip(group, drawn, strict=True):
            ids[r] = token
    return [_chosen(*each) for each in zip(ids, is_valid, rows, strict=True)]


def _chosen(token: int, is_valid: bool, row: SampleRow) -> int:
    """Dictated tokens stand in here and nowhere else: all the work before is done as ever."""
    if not is_valid:
        return INVALID
    return token if row.forced is None else row.forced


def _groups(drawing: list[int], rows: Sequence[SampleRow], logits: Tensor) -> Iterator[list[int]]:
    """Rows of one kind, as many as a CPU's cache holds; a GPU takes all at once."""
    for is_cut, numbers in ((True, CUT_NUMBERS), (False, OPEN_NUMBERS)):
        alike = [r for r in drawing if _is_cut(rows[r]) is is_cut]
        size = max(1, numbers // logits.shape[1] if logits.device.type == "cpu" else len(alike))
        yield from (alike[first : first + size] for first in range(0, len(alike), size))


def _is_cut(row: SampleRow) -> bool:
    return row.sampling.top_k > 0 or row.sampling.top_p < 1.0


def _draw(logits_RV: Tensor, rows: Sequence[SampleRow], noise: Noise) -> list[int]:
    logp_RC = torch.log_softmax(logits_RV / _column([row.sampling.temperature for row in rows], logits_RV), dim=-1)
    if _is_cut(rows[0]):
        ids_RC, logp_RC = _survivors(logp_RC, rows)
    else:
        ids_RC = torch.arange(logp_RC.shape[1], device=logp_RC.device).expand_as(logp_RC)
    best_R1 = (logp_RC.double() + noise(rows, ids_RC)).argmax(dim=-1, keepdim=True)
    drawn: list[int] = ids_RC.gather(1, best_R1)[:, 0].tolist()
    return drawn


def _survivors(logp_RV: Tensor, rows: Sequence[SampleRow]) -> tuple[Tensor, Tensor]:
    """Ids and log p of the tokens left by top-k and top-p, best first; where rows differ in number, -inf fills up."""
    vocabulary = logp_RV.shape[1]
    for count in sorted({min(some, vocabulary) for some in (*CANDIDATES, vocabulary)}):
        ids_RC = _largest(logp_RV, count)
        logp_RC = logp_RV.gather(1, ids_RC)
        is_alive_RC = _cut(logp_RC, rows)
        if count == vocabulary or not is_alive_RC[:, -1].any():
            break  # the cut lies among the candidates
    width = int(is_alive_RC.sum(dim=1).max())
    return ids_RC[:, :width], logp_RC.masked_fill(~is_alive_RC, float("-inf"))[:, :width]


def _largest(logp_RV: Tensor, count: int) -> Tensor:
    """Ids of the `count` largest, best first. (R, C)"""
    if logp_RV.device.type != "cpu":
        return logp_RV.topk(count, dim=-1).indices
    # On a CPU numpy partitions and sorts in a fifth of torch's time.
    falling_RV = -logp_RV.numpy()
    ids_RC = np.argpartition(falling_RV, count - 1, axis=-1)[:, :count]
    order_RC = np.argsort(np.take_along_axis(falling_RV, ids_RC, axis=-1), axis=-1)
    return torch.from_numpy(np.take_along_axis(ids_RC, order_RC, axis=-1))


def _cut(logp_RC: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Which of the candidates, best first, survive top-k and then top-p of what top-k left. (R, C)"""
    count = logp_RC.shape[1]
    last_R1 = torch.tensor([[min(row.sampling.top_k or count, count) - 1] for row in rows], device=logp_RC.device)
    is_alive_RC = logp_RC >= logp_RC.gather(1, last_R1)
    if all(row.sampling.top_p == 1.0 for row in rows):
        return is_alive_RC
    p_RC = logp_RC.double().exp().masked_fill(~is_alive_RC, 0.0)
    is_top_k_R1 = torch.tensor([[row.sampling.top_k > 0] for row in rows], device=logp_RC.device)
    whole_R1 = torch.where(is_top_k_R1, p_RC.sum(dim=1, keepdim=True), 1.0)
    # At 1.0 nothing may be cut, however the sum of the tail is rounded.
    mass_R1 = _column([row.sampling.top_p if row.sampling.top_p < 1.0 else 2.0 for row in rows], p_RC) * whole_R1
    is_needed_RC = (p_RC.cumsum(dim=1) - p_RC < mass_R1) & is_alive_RC
    worst_R1 = logp_RC.masked_fill(~is_needed_RC, float("inf")).amin(dim=1, keepdim=True)
    return logp_RC >= worst_R1


def _column(numbers: list[float], like: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None]

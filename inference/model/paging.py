"""Where the rows of a pass lie in the paged cache.

The cache of one layer is two tensors, keys (K, S, D) and values (K, S, V): K heads, and S slots that are cut into
blocks. Position p of a sequence lies in slot blocks[p // block_size] * block_size + p % block_size:

    blocks of the sequence   [ 7 | 8 | 3 ]           block_size 4, 10 positions computed, 2 rows in this pass
    slots                    28 29 30 31 | 32 33 34 35 | 12 13
    positions                 0  1  2  3    4  5  6  7    8  9
                                                          ^^^^^ written by this pass, read together with all before

The allocator prefers consecutive blocks: then the sequence's slots are one run, and a slice of the cache holds them
without a copy. Otherwise they are gathered.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one layer keeps of a token."""

    num_kv_heads: int
    key_dim: int
    value_dim: int

    @property
    def num_numbers(self) -> int:
        return self.num_kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one sequence in a pass: `tokens` are computed at positions start, start + 1, …"""

    tokens: Items[int]
    start: int
    blocks: Items[int]
    num_sampled: int

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Packed:
    """A pass as tensors; T rows, B spans, G gathered slots, R sampled rows."""

    ids_T: Tensor
    positions_T: Tensor
    slots_T: Tensor
    """The slot that each row writes."""
    gathered_G: Tensor
    """The slots of the spans whose blocks are not consecutive, one span after the other."""
    spans_B4: Tensor
    """On the host: rows, start, first slot (-1: gathered), offset into `gathered_G`."""
    sampled_R: Tensor


def pack(spans: Items[Span], block_size: int, device: torch.device) -> Packed:
    """Lay the spans one after the other."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    gathered: list[int] = []
    table: list[tuple[int, int, int, int]] = []
    sampled: list[int] = []
    for span in spans:
        num_blocks = -(-span.end // block_size)
        assert len(span.blocks) >= num_blocks, "a span runs past its blocks"
        is_run = _is_consecutive(span.blocks[:num_blocks])
        first = span.blocks[0] * block_size if is_run else -1
        table.append((len(span.tokens), span.start, first, len(gathered)))
        gathered += [] if is_run else _slots(span, 0, block_size)
        ids += span.tokens
        positions += range(span.start, span.end)
        slots += _slots(span, span.start, block_size)
        sampled += range(len(ids) - span.num_sampled, len(ids))
    return Packed(
        ids_T=_to_device(ids, device),
        positions_T=_to_device(positions, device),
        slots_T=_to_device(slots, device),
        gathered_G=_to_device(gathered, device),
        spans_B4=torch.tensor(table),
        sampled_R=_to_device(sampled, device),
    )


def _slots(span: Span, start: int, block_size: int) -> list[int]:
    """The slots of positions start … end - 1."""
    return [span.blocks[p // block_size] * block_size + p % block_size for p in range(start, span.end)]


def _is_consecutive(blocks: Items[int]) -> bool:
    return all(b == a + 1 for a, b in pairwise(blocks))


def _to_device(column: list[int], device: torch.device) -> Tensor:
    """Pinned, so that the copy needs no wait."""
    host = torch.tensor(column, dtype=torch.int64)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host

"""Attention over the paged cache, in the shape that transformers calls.

Letters: T rows of the pass, Q query heads, K key/value heads, G = Q / K query heads a group, D key and V value
numbers a head, S slots of the cache, C positions of one sequence's context, N rows of one tile.

A pass is packed: its T rows belong to several sequences, one span after the other (`paging`). For each span:

    keys      0 ............................ start ........ end          query head q reads key head q // G, so the
    row 0     [ seen ....................... ]  .                        G heads of a group are folded into the rows:
    row 1     [ seen .......................... ]                        (Q, N, D) → (K, G·N, D), and keys and values
    row 2     [ seen ............................. ]                     are read once, never repeated

Rows go in tiles, each of which reads only the keys it can see: nothing over its last row, nothing before its window.

transformers finds the function under the name `specgate`. No mask function is registered under that name, so
transformers makes no mask. The cache and the layout of the pass come in as the keyword argument `pages`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from inference.model.errors import ModelRefused

NAME = "specgate"
TILE = 64
"""Rows attended together: enough to keep the cores busy, few enough to skip most keys that no row may see."""
HARMLESS = frozenset({"position_ids", "use_cache", "cache_position", "output_attentions", "output_router_logits"})
"""Keyword arguments that models hand down and that change nothing about attention."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How scores are made of queries and keys."""

    scaling: float
    window: int | None = None
    """A row sees itself and the window - 1 positions before."""
    softcap: float | None = None
    sinks_Q: Tensor | None = None
    """A score for each head that takes part in the softmax and carries no value."""


class Pages(Protocol):
    """Who attends: `PagedPass` in earnest, `loader.ShapeRecorder` to learn what the layers keep."""

    def attend(self, layer: int, query_1QTD: Tensor, key_1KTD: Tensor, value_1KTV: Tensor, rule: Rule) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class PagedPass:
    """The paged cache, and the layout of the pass that runs over it."""

    keys: list[Tensor]
    values: list[Tensor]
    slots_T: Tensor
    gathered_G: Tensor
    spans_B4: Tensor

    def attend(self, layer: int, query_1QTD: Tensor, key_1KTD: Tensor, value_1KTV: Tensor, rule: Rule) -> Tensor:
        out_TQV: Tensor = torch.ops.specgate.paged_attention(
            query_1QTD[0],
            key_1KTD[0],
            value_1KTV[0],
            self.keys[layer],
            self.values[layer],
            self.slots_T,
            self.gathered_G,
            self.spans_B4,
            rule.scaling,
            rule.window,
            rule.softcap,
            rule.sinks_Q,
        )
        return out_TQV[None]


def register() -> None:
    """Make transformers know the function; as often as one likes."""
    AttentionInterface.register(NAME, attention)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    pages: Pages | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What every transformers layer calls. Whatever it does not honour it refuses: ignoring it would be wrong."""
    name, layer = type(module).__name__, getattr(module, "layer_idx", None)
    if pages is None or layer is None:
        raise ModelRefused(f"{name} does not hand its layer number and keyword arguments to attention.")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    refused = {"attention_mask": attention_mask, "dropout": dropout or None, "is_causal": None if causal else causal}
    refused |= {argument: given for argument, given in others.items() if argument not in HARMLESS}
    for argument, given in refused.items():
        if given is not None:
            raise ModelRefused(f"{name} passes {argument!r}, which this attention does not implement.")
    rule = Rule(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)
    return pages.attend(layer, query, key, value, rule), None


def _empty_output(query_QTD: Tensor, key_KTD: Tensor, value_KTV: Tensor, *rest: Any) -> Tensor:
    return query_QTD.new_empty(query_QTD.shape[1], query_QTD.shape[0], value_KTV.shape[-1])


def _paged_attention(
    query_QTD: Tensor,
    key_KTD: Tensor,
    value_KTV: Tensor,
    keys_KSD: Tensor,
    values_KSV: Tensor,
    slots_T: Tensor,
    gathered_G: Tensor,
    spans_B4: Tensor,
    scaling: float,
    window: int | None,
    softcap: float | None,
    sinks_Q: Tensor | None,
) -> Tensor:
    """Write the rows' keys and values, then attend span by span. (T, Q, V)"""
    keys_KSD.index_copy_(1, slots_T, key_KTD)
    values_KSV.index_copy_(1, slots_T, value_KTV)
    rule = Rule(scaling, window, softcap, sinks_Q)
    out_TQV = _empty_output(query_QTD, key_KTD, value_KTV)
    first = 0
    for rows, start, slot, offset in spans_B4.tolist():
        where = gathered_G[offset : offset + start + rows] if slot < 0 else slice(slot, slot + start + rows)
        span = query_QTD[:, first : first + rows]
        out_TQV[first : first + rows] = _span(span, keys_KSD[:, where], values_KSV[:, where], start, rule)
        first += rows
    return out_TQV


def _span(query_QTD: Tensor, keys_KCD: Tensor, values_KCV: Tensor, start: int, rule: Rule) -> Tensor:
    """One sequence: its rows stand at positions start, start + 1, … of its context. (T, Q, V)"""
    tiles = []
    for top in range(0, query_QTD.shape[1], TILE):
        query_QND = query_QTD[:, top : top + TILE]
        position = start + top
        end = position + query_QND.shape[1]
        low = max(0, position - rule.window + 1) if rule.window else 0
        tiles.append(_tile(query_QND, keys_KCD[:, low:end], values_KCV[:, low:end], position - low, rule))
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles)


def _tile(query_QND: Tensor, keys_KCD: Tensor, values_KCV: Tensor, position: int, rule: Rule) -> Tensor:
    """N rows against the C keys that the last of them ends. (N, Q, V)"""
    (heads, rows, dim), groups = query_QND.shape, keys_KCD.shape[0]
    folded_KND = query_QND.reshape(groups, heads // groups * rows, dim)
    mask_NC = _mask(rows, position, rule.window, query_QND)
    mask_NC = None if mask_NC is None else mask_NC.repeat(heads // groups, 1)
    if rule.softcap is None and rule.sinks_Q is None:
        out_KNV = F.scaled_dot_product_attention(
            folded_KND[None], keys_KCD[None], values_KCV[None], attn_mask=mask_NC, scale=rule.scaling
        )[0]
    else:
        out_KNV = _by_hand(folded_KND, keys_KCD, values_KCV, mask_NC, rule)
    return out_KNV.reshape(heads, rows, -1).transpose(0, 1)


def _mask(rows: int, position: int, window: int | None, like: Tensor) -> Tensor | None:
    """0 where a row may look, -inf where not; row i stands at position + i. None: one row sees all."""
    if rows == 1:
        return None
    mask_NC = like.new_full((rows, position + rows), float("-inf")).triu_(position + 1)
    if window:
        mask_NC += torch.full_like(mask_NC, float("-inf")).tril_(position - window)
    return mask_NC


def _by_hand(query_KND: Tensor, keys_KCD: Tensor, values_KCV: Tensor, mask_NC: Tensor | None, rule: Rule) -> Tensor:
    """Softmax attention with what the fused kernels lack: a cap on the scores, and sinks."""
    scores_KNC = query_KND @ keys_KCD.transpose(1, 2) * rule.scaling
    if rule.softcap is not None:
        scores_KNC = torch.tanh(scores_KNC / rule.softcap) * rule.softcap
    if mask_NC is not None:
        scores_KNC = scores_KNC + mask_NC
    if rule.sinks_Q is None:
        return torch.softmax(scores_KNC, -1, dtype=torch.float32).to(query_KND.dtype) @ values_KCV
    rows_a_head = query_KND.shape[0] * query_KND.shape[1] // rule.sinks_Q.numel()
    sinks_KN1 = rule.sinks_Q.repeat_interleave(rows_a_head).reshape(*query_KND.shape[:2], 1).to(scores_KNC.dtype)
    weights = torch.softmax(torch.cat([scores_KNC, sinks_KN1], -1), -1, dtype=torch.float32)[..., :-1]
    return weights.to(query_KND.dtype) @ values_KCV


# An operator of its own, with the cache declared as written, so that torch.compile keeps the model in one graph.
torch.library.define(
    "specgate::paged_attention",
    "(Tensor query_QTD, Tensor key_KTD, Tensor value_KTV, Tensor(a!) keys_KSD, Tensor(b!) values_KSV, Tensor slots_T, "
    "Tensor gathered_G, Tensor spans_B4, float scaling, int? window, float? softcap, Tensor? sinks_Q) -> Tensor",
)
torch.library.impl("specgate::paged_attention", "CompositeExplicitAutograd", _paged_attention)
torch.library.register_fake("specgate::paged_attention", _empty_output)

"""One pass: a batch of rows in, the logits of its sampled rows out. Anything that touches the device happens here."""

from collections.abc import Sequence as Items

import torch
from torch import Tensor

from inference.config import EngineConfig
from inference.model.attention import PagedPass
from inference.model.loaded_model import LoadedModel
from inference.model.paging import Span, pack
from inference.sequence import Batch


class Runner:
    """Owns the paged cache of one model."""

    def __init__(self, model: LoadedModel, config: EngineConfig) -> None:
        self._model = model
        self._block_size = config.block_size
        self.max_model_len = min(model.max_model_len, config.max_model_len)
        slots = config.num_blocks * config.block_size
        # Left uninitialised: a slot is never read before it is written, and untouched memory costs nothing on a CPU.
        self._keys = [self._empty(layer.num_kv_heads, slots, layer.key_dim) for layer in model.layers]
        self._values = [self._empty(layer.num_kv_heads, slots, layer.value_dim) for layer in model.layers]

    @property
    def vocab_size(self) -> int:
        return self._model.vocab_size

    @property
    def cache_bytes(self) -> int:
        return sum(cache.nbytes for cache in (*self._keys, *self._values))

    def forward(self, batch: Batch) -> Tensor:
        """Compute every row into the cache; float32 logits (R, vocabulary) of the sampled rows, in order."""
        return self.run([Span(c.tokens, c.start, c.seq.blocks, c.num_sampled) for c in batch.chunks])

    @torch.inference_mode()
    def run(self, spans: Items[Span]) -> Tensor:
        """`forward`, of rows that belong to no request."""
        vocab_size = self.vocab_size
        assert all(0 <= token < vocab_size for span in spans for token in span.tokens), (
            "a token is not in the vocabulary"
        )
        packed = pack(spans, self._block_size, self._model.device)
        pages = PagedPass(self._keys, self._values, packed.slots_T, packed.gathered_G, packed.spans_B4)
        logits_1RV: Tensor = self._model.module(
            input_ids=packed.ids_T[None],
            position_ids=packed.positions_T[None],
            use_cache=False,
            logits_to_keep=packed.sampled_R,
            pages=pages,
        ).logits
        return logits_1RV[0, :, :vocab_size].float()

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self._model.dtype, device=self._model.device)

"""Are two outputs the same, token for token? Floating point allows one exception: a tie.

The row of a token alone and the row of the same token among others differ by about 1e-4 in their logits, so two
candidates whose perturbed scores (log p + noise) lie within 1e-3 may change places. Everything after such a place is
another text, so the comparison ends there; a run may have one.
"""

from collections.abc import Sequence as Items

import torch

from inference.config import EngineConfig
from inference.model.loaded_model import LoadedModel
from inference.model.noise import gumbel
from inference.model.paging import Span
from inference.model.runner import Runner
from inference.protocol import SamplingParams
from inference.sequence import SampleRow

TIE = 1e-3


class Identity:
    """Compares outputs of one model and counts the ties it had to let pass."""

    def __init__(self, model: LoadedModel) -> None:
        self._runner = Runner(model, EngineConfig(num_blocks=128, max_model_len=2048))
        self.ties: list[str] = []

    def assert_same(
        self,
        name: str,
        prompt: Items[int],
        expected: Items[int],
        got: Items[int],
        sampling: SamplingParams,
        choice: int = 0,
    ) -> None:
        if list(expected) == list(got):
            return
        at = next((i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), None)
        assert at is not None, f"{name}: one output is cut short: {len(expected)} tokens against {len(got)}"
        gap = self._gap([*prompt, *expected[:at]], expected[at], got[at], SampleRow(sampling, choice, at))
        assert gap <= TIE, (
            f"{name}: token {at} differs, {expected[at]} against {got[at]}; their scores are {gap:.4f} apart"
        )
        self.ties.append(f"{name}: token {at}, {gap:.1e}")
        assert len(self.ties) <= 1, f"more than one tie in a run: {self.ties}"

    def _gap(self, tokens: Items[int], first: int, second: int, row: SampleRow) -> float:
        num_blocks = -(-len(tokens) // 16)
        logits_1V = self._runner.run([Span(tuple(tokens), 0, list(range(num_blocks)), 1)])
        if row.sampling.temperature < 1e-5:
            return abs(float(logits_1V[0, first] - logits_1V[0, second]))
        ids_12 = torch.tensor([[first, second]])
        logp_1V = torch.log_softmax(logits_1V / row.sampling.temperature, dim=-1)
        scores_12 = logp_1V.double().gather(1, ids_12) + gumbel([row], ids_12)
        return abs(float(scores_12[0, 0] - scores_12[0, 1]))

"""The one lossless rule: only the target's own samples leave."""

from collections.abc import Sequence


def verify(sampled: Sequence[int], draft: Sequence[int]) -> list[int]:
    """Keep the target's samples up to and including the first that differs from the draft.

    `sampled` has one row more than `draft`: row i is what the target chose after i drafted tokens. Since the noise of
    a position is fixed by (seed, choice, position), the kept tokens are those of plain decoding, at any temperature
    (Daliri, Musco and Suresh, arXiv 2408.07978).
    """
    assert len(sampled) == len(draft) + 1
    kept = 0
    while kept < len(draft) and sampled[kept] == draft[kept]:
        kept += 1
    return list(sampled[: kept + 1])

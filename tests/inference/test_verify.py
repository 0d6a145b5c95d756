"""The one lossless rule: what leaves is the target's own samples, up to the first the draft did not foresee."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.speculation.verify import verify


@pytest.mark.parametrize(
    ("sampled", "draft", "kept"),
    [
        ([7], [], [7]),
        ([7, 8], [7], [7, 8]),
        ([7, 8], [9], [7]),
        ([7, 8, 9, 1], [7, 8, 9], [7, 8, 9, 1]),
        ([7, 8, 9, 1], [7, 0, 9], [7, 8]),
        ([7, 8, 9, 1], [0, 8, 9], [7]),
    ],
)
def test_samples_are_kept_to_the_first_that_differs(sampled: list[int], draft: list[int], kept: list[int]) -> None:
    assert verify(sampled, draft) == kept


@given(text=st.lists(st.integers(0, 3), min_size=1, max_size=8), draft=st.lists(st.integers(0, 3), max_size=7))
def test_a_target_writes_its_own_text_whatever_is_drafted(text: list[int], draft: list[int]) -> None:
    draft = draft[: len(text) - 1]
    kept = verify(text[: len(draft) + 1], draft)
    assert kept == text[: len(kept)]
    assert len(kept) >= 1
    assert draft[: len(kept) - 1] == kept[:-1]

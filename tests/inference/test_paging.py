"""Where rows lie: the drawing at the head of `paging`, number by number."""

import torch

from inference.model.paging import LayerShape, Packed, Span, pack

CPU = torch.device("cpu")


def lists(packed: Packed) -> dict[str, list[int]]:
    names = ("ids_T", "positions_T", "slots_T", "gathered_G", "spans_B4", "sampled_R")
    return {name: getattr(packed, name).tolist() for name in names}


def test_scattered_blocks_are_gathered() -> None:
    packed = pack([Span((50, 51), 8, (7, 8, 3), 1)], 4, CPU)
    assert lists(packed) == {
        "ids_T": [50, 51],
        "positions_T": [8, 9],
        "slots_T": [12, 13],
        "gathered_G": [28, 29, 30, 31, 32, 33, 34, 35, 12, 13],
        "spans_B4": [[2, 8, -1, 0]],
        "sampled_R": [1],
    }


def test_consecutive_blocks_are_one_slice_whatever_lies_behind_them() -> None:
    """Block 3 holds nothing of these rows yet."""
    packed = pack([Span((50, 51), 6, (7, 8, 3), 2)], 4, CPU)
    assert lists(packed) | {"ids_T": [], "positions_T": []} == {
        "ids_T": [],
        "positions_T": [],
        "slots_T": [34, 35],
        "gathered_G": [],
        "spans_B4": [[2, 6, 28, 0]],
        "sampled_R": [0, 1],
    }


def test_spans_lie_one_after_the_other() -> None:
    packed = pack([Span((1, 2, 3), 0, (5, 2), 0), Span((9,), 4, (1, 0), 1), Span((7, 8), 3, (4, 3), 1)], 4, CPU)
    assert packed.ids_T.tolist() == [1, 2, 3, 9, 7, 8]
    assert packed.slots_T.tolist() == [20, 21, 22, 0, 19, 12]
    assert packed.spans_B4.tolist() == [[3, 0, 20, 0], [1, 4, -1, 0], [2, 3, -1, 5]]
    assert packed.gathered_G.tolist() == [4, 5, 6, 7, 0, 16, 17, 18, 19, 12]
    assert packed.sampled_R.tolist() == [3, 5]


def test_a_token_costs_its_keys_and_values() -> None:
    assert LayerShape(num_kv_heads=3, key_dim=64, value_dim=32).num_numbers == 288

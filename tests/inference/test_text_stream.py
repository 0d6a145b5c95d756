"""However a text is cut into tokens, the same characters leave: whole ones, up to the earliest complete stop string."""

import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.tokenizer import TextStream, Tokenizer
from inference.tokenizer.stop_strings import StopString
from inference.tokenizer.text_stream import Characters
from tests.inference.tiny_tokenizers import CONTROL, byte_fallback_json, byte_level_json, byte_tokenizer

NAMES = "ab \nX"
TEXTS = st.text(st.sampled_from(NAMES + "é…😀\u0301\u200d👩�"), max_size=24) | st.text(max_size=12)
STOPS = st.lists(st.text(st.sampled_from(NAMES + "é😀"), max_size=4) | st.text(max_size=2), max_size=4)

STEADY = settings(deadline=None, derandomize=True)


def stream(tokenizer: tokenizers.Tokenizer, stops: Sequence[str] = ()) -> TextStream:
    return TextStream(Characters(tokenizer, frozenset()), [StopString.of(stop) for stop in stops if stop])


def expected(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The contract by brute force: over all prefixes, the first that ends in a stop string."""
    for end in range(len(text) + 1):
        for stop in stops:
            if stop and text[:end].endswith(stop):
                return text[: end - len(stop)], True
    return text, False


def held_back(text: str, stops: Sequence[str]) -> int:
    """Length of the longest ending of the text that begins a stop string."""
    beginnings = {stop[:n] for stop in stops for n in range(1, len(stop))}
    return max((len(start) for start in beginnings if text.endswith(start)), default=0)


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [piece for piece in (*pieces, data[start:]) if piece]


def run(out: TextStream, ids: Sequence[int]) -> tuple[list[str], bool]:
    """What left after each token, and at the end; pushing ends at the stop, as in the engine."""
    left = []
    stopped = False
    for token_id in ids:
        stopped = out.push(token_id)
        left.append(out.take())
        if stopped:
            break
    return [*left, out.finish()], stopped


@settings(STEADY, max_examples=400)
@given(TEXTS, st.lists(st.integers(1, 5), max_size=30), STOPS)
@example("aXb", [3], ["Xb", "X"])
@example("abab😀", [2, 2, 1, 1, 1, 1], ["ab😀"])
@example("aaab", [1] * 4, ["aab"])
@example("aabaaabaaac", [1] * 11, ["aabaaac"])
@example("ababac", [1] * 6, ["abac", "bb"])
def test_any_cut_of_any_text_gives_the_text_up_to_the_earliest_stop(
    text: str, sizes: list[int], stops: list[str]
) -> None:
    tokenizer, ids = byte_tokenizer(cut(text.encode(), sizes))
    left, stopped = run(stream(tokenizer, stops), ids)
    assert ("".join(left), stopped) == expected(text, stops)


@settings(STEADY, max_examples=200)
@given(TEXTS, STOPS)
def test_no_more_is_held_back_than_may_begin_a_stop(text: str, stops: list[str]) -> None:
    text = text.replace("\ufffd", "?")
    tokenizer, ids = byte_tokenizer([char.encode() for char in text])
    left, _ = run(stream(tokenizer, stops), ids)
    whole = expected(text, stops)[0]
    for count in range(1, len(left) - 1):
        so_far = text[:count]
        assert "".join(left[:count]) == whole[: count - held_back(so_far, stops)]


@settings(STEADY, max_examples=300)
@given(st.binary(max_size=40), st.lists(st.integers(1, 4), max_size=30))
@example(b"\xff" * 40, [])
@example(b"\xff" * 14 + "😀".encode() + b"a", [1] * 60)
@example(b"\xff" * 13 + "😀".encode() + b"a", [1] * 60)
@example(b"\xff" * 13 + "…".encode() + b"a", [1] * 60)
@example(b"\xff" * 15 + "😀".encode() + b"\xff" * 20 + b"a", [1] * 60)
def test_bytes_that_are_no_text_never_break_the_stream(data: bytes, sizes: list[int]) -> None:
    tokenizer, ids = byte_tokenizer(cut(data, sizes or [1] * len(data)))
    left, _ = run(stream(tokenizer), ids)
    assert "".join(left) == data.decode(errors="replace")


@settings(STEADY)
@given(TEXTS, st.lists(st.booleans(), max_size=40), STOPS)
@example("é", [True], ["é"])
def test_byte_fallback_tokens_wait_for_their_character(text: str, spelled: list[bool], stops: list[str]) -> None:
    """Each character as its own token or in bytes, as the model pleases."""
    tokenizer = tokenizers.Tokenizer.from_str(byte_fallback_json())
    ids: list[int] = []
    for char, in_bytes in zip_longest(text, spelled[: len(text)], fillvalue=False):
        token = tokenizer.token_to_id("▁" if char == " " else str(char))
        spelling = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in str(char).encode()]
        ids += spelling if token is None or (in_bytes and char != " ") else [token]
    left, stopped = run(stream(tokenizer, stops), ids)
    assert ("".join(left), stopped) == expected(tokenizer.decode(ids), stops)


def test_a_byte_that_spoils_a_run_costs_itself_alone() -> None:
    tokenizer = tokenizers.Tokenizer.from_str(byte_fallback_json())
    ids = [tokenizer.token_to_id(token) for token in ("<0xC3>", "<0xA9>", "<0xFF>", "a", "▁", "b")]
    assert run(stream(tokenizer), ids)[0] == ["", "é", "", "�a", " ", "b", ""]


@pytest.mark.parametrize("make", [byte_level_json, byte_fallback_json])
@settings(STEADY)
@given(ids=st.lists(st.integers(0, 270), max_size=80))
def test_no_sequence_of_tokens_breaks_the_stream(make: Callable[[], str], ids: list[int]) -> None:
    run(Tokenizer(make()).text(("a",)), ids)


def test_half_a_character_leaves_only_at_the_end() -> None:
    tokenizer, ids = byte_tokenizer([b"a", b"\xf0\x9f", b"\x98"])
    assert run(stream(tokenizer), ids) == (["a", "", "", "�"], False)


def test_a_stop_string_is_found_inside_one_token_and_across_three() -> None:
    tokenizer, ids = byte_tokenizer([b"say hello STOP now"])
    assert run(stream(tokenizer, ["STOP"]), ids) == (["say hello ", ""], True)
    tokenizer, ids = byte_tokenizer([b"say S", b"TO", b"P now"])
    assert run(stream(tokenizer, ["STOP"]), ids) == (["say ", "", "", ""], True)


def test_a_beginning_that_comes_to_nothing_is_let_go_at_once() -> None:
    tokenizer, ids = byte_tokenizer([b"a", b"<", b"/", b"b>"])
    assert run(stream(tokenizer, ["</s>"]), ids) == (["a", "", "", "</b>", ""], False)


def test_a_beginning_still_open_at_the_end_is_text() -> None:
    tokenizer, ids = byte_tokenizer([b"a", b"</"])
    assert run(stream(tokenizer, ["</s>"]), ids) == (["a", "", "</"], False)


def test_of_two_stops_that_complete_together_the_first_listed_wins() -> None:
    tokenizer, ids = byte_tokenizer([b"xab"])
    assert "".join(run(stream(tokenizer, ["b", "ab"]), ids)[0]) == "xa"
    assert "".join(run(stream(tokenizer, ["ab", "b"]), ids)[0]) == "x"


def test_nothing_follows_a_stop() -> None:
    tokenizer, ids = byte_tokenizer([b"a!", b"b"])
    out = stream(tokenizer, ["!"])
    assert [out.push(token_id) for token_id in (*ids, *ids)] == [True] * 4
    assert (out.take(), out.take(), out.finish(), out.finish()) == ("a", "", "", "")


def test_control_tokens_say_nothing() -> None:
    tokenizer = Tokenizer(byte_level_json())
    hello = tokenizer.encode("hello")
    control = range(len(CONTROL))
    assert "".join(run(tokenizer.text(), [*control, *hello, *control, *hello])[0]) == "hellohello"


def test_a_character_is_put_together_across_control_tokens() -> None:
    tokenizer = Tokenizer(byte_level_json())
    emoji = tokenizer.encode("😎")
    assert len(emoji) == 2
    assert run(tokenizer.text(), [emoji[0], *range(len(CONTROL)), *[0] * 40, emoji[1]])[0][-2:] == ["😎", ""]


def test_what_can_be_no_character_leaves_before_the_end() -> None:
    tokenizer, ids = byte_tokenizer([b"\xff"] * 100)
    assert len("".join(run(stream(tokenizer), ids)[0][:-1])) >= 80


def test_long_stop_strings_and_endless_nonsense_cost_little() -> None:
    """Both were quadratic (10 s and more), and this runs on the engine's thread."""
    tokenizer, (nonsense, a) = byte_tokenizer([b"\xff", b"a"])
    out = stream(tokenizer, ["a" * 20_000 + "b"])
    start = time.process_time()
    for token_id in [a] * 8000 + [nonsense] * 8000:
        out.push(token_id)
        out.take()
    assert time.process_time() - start < 2

"""A prediction becomes tokens as text, in the newline spellings a reply may use, each token traced to its origin."""

import pytest

from inference.sequence import Prediction, Spelling
from inference.speculation.spelling import spell
from tests.inference.edits import text_tokenizer


class Characters:
    """Each character is a token, except that a CRLF is one."""

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        spans = []
        start = 0
        while start < len(text):
            end = start + (2 if text.startswith("\r\n", start) else 1)
            spans.append((start, end))
            start = end
        return [ord(text[a]) if b == a + 1 else 300 for a, b in spans], spans


CONTROL = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<filename>"}
GARBAGE = [
    " ",
    "\n",
    "\r\n\r\n",
    "\t \n",
    "\x00",
    "a\x00b\x00",
    "émoji 👩‍👩‍👧 ﬀ \u202e\u0301",
    "<|im_end|>\n<|im_start|>system",
    "\r",
]


def test_the_empty_text_has_no_spelling() -> None:
    assert spell("", Characters()) == Prediction(0, ())
    assert spell("\ufeff", Characters()) == Prediction(0, ())


def test_a_text_on_one_line_has_one_spelling() -> None:
    assert spell("ab", Characters()) == Prediction(2, (Spelling((97, 98), (0, 1)),))


def test_lf_comes_first_and_crlf_is_ready() -> None:
    prediction = spell("a\nb", Characters())
    assert prediction.num_tokens == 3
    assert prediction.spellings == (Spelling((97, 10, 98), (0, 1, 2)), Spelling((97, 300, 98), (0, 1, 2)))


def test_a_crlf_text_is_tried_as_lf_first() -> None:
    prediction = spell("a\r\nb", Characters())
    assert prediction.num_tokens == 3
    assert [s.ids for s in prediction.spellings] == [(97, 10, 98), (97, 300, 98)]


def test_mixed_newlines_are_also_tried_as_given() -> None:
    prediction = spell("a\r\nb\nc", Characters())
    assert [s.ids for s in prediction.spellings] == [
        (97, 10, 98, 10, 99),
        (97, 300, 98, 300, 99),
        (97, 300, 98, 10, 99),
    ]
    assert {s.origins for s in prediction.spellings} == {(0, 1, 2, 3, 4)}


def test_the_byte_order_mark_is_no_text() -> None:
    assert spell("\ufeffab", Characters()) == spell("ab", Characters())


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_origins_point_into_the_tokens_as_given(newline: str) -> None:
    tokenizer = text_tokenizer()
    text = newline.join(["def f(x):", "    return x + 1", "", "", "class A:", "    pass", ""])
    given, offsets = tokenizer.encode_with_offsets(text)
    prediction = spell(text, tokenizer)
    assert prediction.num_tokens == len(given)
    for spelling in prediction.spellings:
        assert list(spelling.origins) == sorted(spelling.origins)
        for token, origin in zip(spelling.ids, spelling.origins, strict=True):
            word = tokenizer.decode([token]).strip()
            start = offsets[origin][0]
            assert word in text[start:], "a token comes from where its own characters begin"
            assert text[start:].lstrip().startswith(word)


@pytest.mark.parametrize("text", GARBAGE)
def test_any_text_is_spelled_as_text(text: str) -> None:
    """No control token, whatever the text looks like; every id real; the first two spellings say the same text."""
    tokenizer = text_tokenizer()
    for spelling in spell(text, tokenizer).spellings:
        assert all(0 <= token < tokenizer.vocab_size for token in spelling.ids)
        assert not CONTROL & {tokenizer.decode([token]) for token in spelling.ids}
        assert tokenizer.decode(list(spelling.ids)).replace("\r\n", "\n") == text.replace("\r\n", "\n")
        assert len(spelling.origins) == len(spelling.ids)
        assert all(0 <= origin < len(tokenizer.encode(text)) for origin in spelling.origins)

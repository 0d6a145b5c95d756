"""The layout of a reply is seen from its lines, and the rest of the prediction is then spelt so."""

from collections.abc import Sequence as Items

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.sequence import Spelling
from inference.speculation.layout import MOST_CHANGES, Layout
from inference.speculation.prediction import PredictionProposer
from inference.speculation.spelling import spell
from tests.inference.drafting import Writer
from tests.inference.edits import edits, text_tokenizer
from tests.inference.test_spelling import Characters as Spans


class Characters(Spans):
    def decode(self, ids: Items[int]) -> str:
        return "".join("\r\n" if i == 300 else chr(i) for i in ids)


TABS = "def f(x):\n\tif x:\n\t\treturn one\n\telse:\n\t\treturn two\n\ndef g():\n\treturn three\n"
SPACES = TABS.replace("\t", "    ")


def layout_of(text: str) -> Layout:
    respeller = spell(text, Characters()).respeller
    assert respeller is not None
    return Layout(respeller)


def watched(layout: Layout, written: str) -> list[tuple[int, str]]:
    """(characters written, the text to go on with) at each change."""
    found = ((i, layout.follow(ord(char))) for i, char in enumerate(written, 1))
    return [(i, Characters().decode(spelling.ids)) for i, spelling in found if spelling]


def test_two_lines_that_one_rule_explains_change_the_layout() -> None:
    two_lines = len("def f(x):\n    if x:\n        return one\n")
    assert watched(layout_of(TABS), SPACES) == [(two_lines, SPACES)]
    assert watched(layout_of(SPACES), TABS)[0][1] == TABS


def test_a_reply_that_keeps_its_indentation_is_never_touched() -> None:
    assert watched(layout_of(TABS), TABS) == []


def test_one_odd_line_changes_nothing() -> None:
    assert watched(layout_of(SPACES), SPACES.replace("        return one", "  return one")) == []


def test_lines_that_only_one_rule_each_explains_change_nothing() -> None:
    written = "def f(x):\n  if x:\n        return one\n      else:\n"
    assert watched(layout_of(TABS), written) == []


def test_a_block_that_moves_deeper_comes_back() -> None:
    text = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n"
    written = "a = 1\nwith x:\n    b = 2\n    c = 3\n    d = 4\ne = 5\nf = 6\n"
    deeper = "".join(f"    {line}\n" for line in text.splitlines())
    assert [text for _, text in watched(layout_of(text), written)] == [deeper, text]


def test_units_are_told_from_a_shift_by_a_line_that_is_not_indented() -> None:
    two = SPACES.replace("    ", "  ")
    text = "def f(x):\n    a(x)\n    b(x)\n    if x:\n        c(x)\n"
    assert watched(layout_of(text), text.replace("    ", "  ")) == [
        (len("def f(x):\n  a(x)\n  b(x)\n"), text.replace("    ", "  "))
    ]
    assert watched(layout_of(SPACES), two)[-1][1] == two


def test_crlf_replies_are_laid_out_with_crlf() -> None:
    layout = layout_of(TABS)
    ids = Characters().encode_with_offsets(SPACES.replace("\n", "\r\n"))[0]
    [spelling] = [found for token in ids if (found := layout.follow(token))]
    assert Characters().decode(spelling.ids) == SPACES.replace("\n", "\r\n")


def test_a_reply_that_keeps_changing_its_mind_is_followed_so_far_and_no_further() -> None:
    text = "".join(f"line{i}\n" for i in range(100))
    written = "".join(("    " if i // 2 % 2 else "") + f"line{i}\n" for i in range(100))
    assert len(watched(layout_of(text), written)) == MOST_CHANGES


def test_tokens_stay_traced_to_the_prediction_as_given() -> None:
    prediction = spell(TABS, Characters())
    layout = layout_of(TABS)
    [spelling] = [found for char in SPACES if (found := layout.follow(ord(char)))]
    assert prediction.num_tokens == len(TABS)
    for token, origin in zip(spelling.ids, spelling.origins, strict=True):
        assert TABS[origin] == chr(token) or (TABS[origin] == "\t" and chr(token) == " ")
    assert list(spelling.origins) == sorted(spelling.origins)
    assert set(spelling.origins) == set(range(len(TABS)))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.text(alphabet="ab \t\r\n", max_size=60), st.text(alphabet="ab \t\r\n", max_size=60))
def test_no_text_breaks_it(text: str, written: str) -> None:
    prediction = spell(text, Characters())
    if prediction.respeller is None:
        return
    layout = Layout(prediction.respeller)
    spellings: list[Spelling] = [found for token in map(ord, written) if (found := layout.follow(token))]
    for spelling in spellings:
        assert len(spelling.ids) == len(spelling.origins)
        assert all(0 <= origin < prediction.num_tokens for origin in spelling.origins)


def test_the_real_tokenizer_joins_line_ends_with_the_next_indentation() -> None:
    """SmolLM2 has tokens for a newline and blanks behind it; drafts go on right after the second line."""
    row = next(row for row in edits("pr_edits") if row.before.count("\n    ") > 20 and "\t" not in row.before)
    tokenizer = text_tokenizer()
    reply = row.before
    ids = tokenizer.encode(reply)
    prediction = spell(reply.replace("    ", "\t"), tokenizer)
    writer = Writer(PredictionProposer(), prediction=prediction)
    accepted = 0
    at = 0
    while at < len(ids):
        draft = writer.draft(16)
        kept = next((i for i, (a, b) in enumerate(zip(draft, ids[at:], strict=False)) if a != b), len(draft))
        kept = min(kept, len(ids) - at - 1)
        accepted += kept
        writer.emit(*ids[at : at + kept + 1])
        at += kept + 1
    assert accepted > 0.8 * len(ids)

"""A prediction as tokens: the ways in which the reply may spell the same text.

    as given   "a\\r\\nb"  →  spellings  "a\\nb" (most replies), "a\\r\\nb"
    origins    each token of a spelling → the token of the text as given that holds its first character

Encoded as text: what looks like a special token in a prediction is never one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from inference.sequence import Prediction, Spelling
from inference.speculation.respelling import LineRespeller, Tokens

BOM = "\ufeff"


def spell(text: str, tokenizer: Tokens) -> Prediction:
    """The prediction `text`, without its byte order mark, in every newline spelling worth trying."""
    text = text.removeprefix(BOM)
    if not text:
        return Prediction(0, ())
    encoded = {variant: tokenizer.encode_with_offsets(variant) for variant in newline_variants(text)}
    given = _starts(text, encoded[text][1])
    spellings = (
        _spelling(ids, range(len(ids)) if variant == text else origins(_starts(variant, offsets), given))
        for variant, (ids, offsets) in encoded.items()
    )
    kept = tuple(spelling for spelling in spellings if spelling.ids)
    return Prediction(len(given), kept, LineRespeller(text, [start for start, _ in encoded[text][1]], tokenizer))


def newline_variants(text: str) -> list[str]:
    """LF, CRLF, and as given where it mixes them; equal ones once."""
    lf = text.replace("\r\n", "\n")
    return list(dict.fromkeys((lf, lf.replace("\n", "\r\n"), text)))


def origins(starts: Sequence[int], given: Sequence[int]) -> list[int]:
    """For each start, the last token as given that starts at or before it."""
    return [max(0, bisect_right(given, start) - 1) for start in starts]


def _starts(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Where each token starts, counted in characters of the LF spelling, which all variants share."""
    returns = [i for i, char in enumerate(text) if char == "\r" and text[i + 1 : i + 2] == "\n"]
    return [start - bisect_left(returns, start) for start, _ in offsets]


def _spelling(ids: Sequence[int], positions: Sequence[int]) -> Spelling:
    return Spelling(tuple(ids), tuple(positions))

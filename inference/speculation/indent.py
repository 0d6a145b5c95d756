"""How a reply indents what the prediction indents otherwise: rules, and what a line says of them.

    "\\t\\t" → 8 spaces       each tab becomes four spaces
    4 spaces → 8 spaces     four spaces before it, or each four become eight: the next line tells

Pure text; knows no tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

UNITS = (4, 2, 8, 3)
"""Widths that an indentation is counted in, the likelier first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`old` at the start of a line becomes `new`: once, or as often as it is repeated there."""

    old: str = ""
    new: str = ""
    is_repeated: bool = False

    def apply(self, indent: str) -> str:
        if not self.is_repeated:
            return self.new + indent[len(self.old) :] if indent.startswith(self.old) else indent
        times = next(n for n in range(len(indent) // len(self.old), -1, -1) if indent.startswith(self.old * n))
        return self.new * times + indent[times * len(self.old) :]


SAME = Rule()


def split_indent(line: str) -> tuple[str, str]:
    """A line's leading blanks and what stands behind them, without its end."""
    content = line.strip()
    return line[: len(line) - len(line.lstrip(" \t"))] if content else "", content


def rules(given: str, emitted: str) -> Iterator[Rule]:
    """What may have made `emitted` of the indentation `given`, the likelier first."""
    if given == emitted:
        yield SAME
        return
    one_kind = set(given) == set(emitted)
    by_a_level = abs(len(given) - len(emitted)) % UNITS[0] == 0 or "\t" in given + emitted
    if one_kind and by_a_level:
        yield from _shifts(given, emitted)
    yield from _units(given, emitted)
    if not (one_kind and by_a_level):
        yield from _shifts(given, emitted)


def _shifts(given: str, emitted: str) -> Iterator[Rule]:
    """Further in, or further out."""
    if emitted.endswith(given):
        yield Rule("", emitted.removesuffix(given))
    if given.endswith(emitted):
        yield Rule(given.removesuffix(emitted), "")


def _units(given: str, emitted: str) -> Iterator[Rule]:
    """Both of one character each: so many of the one for so many of the other."""
    if len({*given}) != 1 or len({*emitted}) != 1:
        return
    for width in (1,) if given[0] == "\t" else UNITS:
        times = len(given) // width
        if len(given) % width == 0 and times and len(emitted) % times == 0:
            yield Rule(given[:width], emitted[: len(emitted) // times], is_repeated=True)

"""Rows as CSV: the figures of the JSON, one line a row. Pure.

Members of members have dotted names; lists, and objects whose members differ from row to row, are one cell of JSON.
Numbers stay numbers. Text that a spreadsheet would take for a formula gets an apostrophe before it; `plain` takes
it away again.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
OPEN = frozenset({"by_proposer", "config_versions"})
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def lines(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[str]:
    """The heading, then a line for each row."""
    yield _line(columns)
    for row in rows:
        cells = flat(row)
        yield _line([cell(cells[name]) for name in columns])


def flat(row: Row, prefix: str = "") -> dict[str, Any]:
    """Each figure under its dotted name; a row of any figures tells the columns of all of its kind."""
    told: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and name not in OPEN:
            told |= flat(value, f"{prefix}{name}.")
        else:
            told[prefix + name] = value
    return told


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if _is_risky(value) else value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def plain(text: str) -> str:
    """What `cell` was given, of a text."""
    return text[1:] if text.startswith("'") and _is_risky(text[1:]) else text


def _is_risky(text: str) -> bool:
    """Also behind apostrophes that were there before, so that none is taken away too many."""
    return text.lstrip("'").startswith(FORMULA)


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()

"""A report's CSV says what its JSON says, cell by cell, and no cell is a formula."""

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.reports import completions, speculation
from gateway.reports.break_even import break_even
from gateway.reports.csv import OPEN, cell, flat, lines, plain
from gateway.reports.savings import savings_object
from gateway.usage_query import parse_query
from gateway.usage_report import NOTHING
from tests.gateway.reporting import NOW, SAVING, ask, row

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)
FORMULAS = st.sampled_from(["=1+1", "+1", "-1", "@x", "'=x", "''-", "\t=1", "\r", 'a"b', "a,b", "a\nb", "'a", "模型"])
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS | FORMULAS | st.lists(NUMBERS, max_size=3)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": LEAVES,
            "b": st.fixed_dictionaries({"x": LEAVES, "y": LEAVES}),
            "by_proposer": st.dictionaries(TEXTS, LEAVES),
        }
    ),
    max_size=4,
)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def back(told: str, value: Any) -> Any:
    """A cell as what it was made of, whose kind the JSON tells."""
    if value is None or isinstance(value, str):
        return plain(told) or None
    return json.loads(told)


@given(ROWS)
def test_every_cell_is_that_of_the_json(rows: list[dict[str, Any]]) -> None:
    columns = ["a", "b.x", "b.y", "by_proposer"]
    found = read("".join(lines(rows, columns)))
    assert len(found) == len(rows)
    for told, one in zip(found, rows, strict=True):
        assert list(told) == columns
        assert {name: back(told[name], value) for name, value in flat(one).items()} == flat(one)


@given(TEXTS | FORMULAS)
def test_no_text_is_a_formula(text: str) -> None:
    assert not cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert plain(cell(text)) == text


def test_numbers_stay_numbers() -> None:
    assert [cell(value) for value in (-5, 0.25, -1.5e-7, None, True, [1, 2])] == [
        *("-5", "0.25", "-1.5e-07", "", "true", "[1,2]"),
    ]


def test_a_report_of_nothing_has_the_columns_of_all() -> None:
    query = parse_query(ask(), NOW)
    some = row(group={"workload": "code", "cohort": "treated", "deployment_id": "d"})
    assert list(flat(completions.result(NOTHING, query))) == list(flat(completions.result(some, query)))
    told = speculation.result(some, break_even(some, SAVING), savings_object(SAVING))
    nothing = speculation.result(NOTHING, break_even(NOTHING, None), savings_object(None))
    assert list(flat(nothing)) == list(flat(told))
    assert {"outcomes.completed", "time_us.draft", "latency_us.queue.p95", "break_even.verdict"} <= set(flat(told))
    assert flat(told).keys() & OPEN == {"by_proposer"}

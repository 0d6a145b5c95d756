"""`specgate usage`: the report's figures under their headings, whole in a terminal of 80 columns and of 120."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from gateway.cli.usage_table import table
from gateway.reports import speculation
from gateway.reports.break_even import break_even
from gateway.reports.savings import savings_object
from storage.savings.cohorts import Saving
from storage.savings.values import NotEnough
from tests.gateway.reporting import MODELLED, ROW, SAVING, row

UNKNOWN = replace(SAVING, drawn=NotEnough(11, 4.5, 0.3, 1900))
SUMS = {**ROW.sums, "prompt_tokens": 123_456_789, "completion_tokens": 9_876_543, "accepted_delivered": 1_234_567}


def told(saving: Saving, **changes: Any) -> dict[str, Any]:
    one = row(**changes)
    return speculation.result(one, break_even(one, saving), savings_object(saving))


def report(*results: dict[str, Any]) -> dict[str, Any]:
    empty = {"start_time_iso": "2026-01-01T00:00:00Z", "results": []}
    return {
        "data": [empty, {"start_time_iso": "2026-01-02T00:00:00Z", "results": list(results)}],
        "finalised_through": 1_772_323_200,
    }


def shown(report: dict[str, Any], groups: list[str], width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table(report, groups, width))
    return captured.get().splitlines()


def days(lines: list[str]) -> list[str]:
    return [line for line in lines if "01-02 " in line]


def test_a_wide_terminal_is_told_everything() -> None:
    lines = shown(report(told(SAVING), told(UNKNOWN, group={"model": "other"})), ["model"], 160)
    assert [line.split() for line in days(lines)] == [
        *(
            ["2026-01-02", name, "3", "300", "128", "66", "50", "80.0%", "40", "3.00", "1.0/88.3", *saved]
            for name, saved in (("tiny", ["30.0±5.5s", "yes"]), ("other", ["?", "?"]))
        )
    ]
    assert "about 1,900 more requests" in " ".join(map(str.strip, lines))
    assert "Final up to 2026-03-01T00:00:00Z." in " ".join(map(str.strip, lines))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("groups", [[], ["model"], ["deployment_id"]])
def test_large_figures_are_whole(width: int, groups: list[str]) -> None:
    group = {"model": "smollm2-135m", "deployment_id": "dep_0193f0a1b2c3d4e5f60718293a4b5c6d"}
    lines = shown(report(told(SAVING, requests=12_345, sums=SUMS, group=group)), groups, width)
    [body] = [line for line in lines if "12,345" in line]
    assert all(figure in body for figure in ("123.5M", "9.9M", "1.2M", "80.0%", "30.0±5.5s", "yes"))
    assert "smollm2-135m" in body or "model" not in groups
    assert "718293a4b5c6d"[-10:] in body or "deployment_id" not in groups
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_every_group_is_whole_however_many(width: int) -> None:
    group = {"organization_id": "acme", "project_id": "proj_demo", "api_key_id": "jprmq6zxcire", "model": "tiny"}
    group |= {"deployment_id": "dep_default", "drafter_version": "12", "workload": "code-edits", "cohort": "control"}
    result = told(SAVING, requests=12_345, sums=SUMS) | group
    lines = shown(report(result), list(group), width)
    start = next(number for number, line in enumerate(lines) if "01-02 " in line)
    body, end = lines[start], next(number for number, line in enumerate(lines) if "UTC days" in line)
    starts = [match.start() for match in re.finditer(r"\S+", body)]
    cells = list(pairwise(starts))[1 : 1 + len(group)]
    folded = ["".join(line[left:right].strip() for line in lines[start:end]) for left, right in cells]
    headed = ["".join(line[left:right].strip() for line in lines[:start]) for left, right in cells]
    assert folded == list(group.values())
    assert headed[:-1] == ["tenant", "project", "key", "model", "deployment", "drafter", "workload"]
    assert headed[-1].startswith("cohort")
    assert all(figure in body for figure in ("12,345", "123.5M", "9.9M", "1.2M", "80.0%", "30.0±5.5s", "yes"))
    assert max(map(len, lines)) <= width


def test_a_row_a_proposer_tells_its_drafts() -> None:
    results = [speculation.proposer_result(ROW, name, totals) for name, totals in ROW.by_proposer.items()]
    lines = shown(report(*results), ["model", "proposer"], 80)
    assert [line.split() for line in days(lines)] == [
        ["01-02", "tiny", "lookup", "4", "20", "10", "50.0%", "2.50"],
        ["01-02", "tiny", "prediction", "5", "30", "30", "100.0%", "6.00"],
    ]


def test_a_guess_has_a_tilde_and_a_loss_its_sign() -> None:
    lines = shown(report(told(replace(SAVING, drawn=MODELLED))), [], 80)
    assert days(lines)[0].split()[-2:] == ["~-0.1s", "?"]

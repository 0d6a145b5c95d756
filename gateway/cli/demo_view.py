"""How the demo looks: two answers growing side by side, then the diff, the figures and what they do not say."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gateway.cli import demo_case
from gateway.cli.demo_stream import Run

WITH, WITHOUT, OFF = "with prediction", "without prediction", "speculation off"
CAVEAT = (
    "A model of 135 M parameters shows speed and equality, not the quality of code. A bigger one: "
    "`SPECGATE_MODEL=/path/to/a/transformers/folder specgate serve`, then `specgate demo` again; "
    "`--file` edits a file of yours."
)


class Columns:
    """Two answers beside each other, drawn again as they grow."""

    def __init__(self, live: Live | None, height: int) -> None:
        self._live, self._height = live, height
        self._texts = {WITH: "", WITHOUT: ""}
        self._notes = {WITH: "", WITHOUT: "waits for its turn"}

    def show(self, name: str, text: str, note: str = "") -> None:
        self._texts[name], self._notes[name] = text, note
        if self._live is not None:
            self._live.update(self._drawn())

    def _drawn(self) -> RenderableType:
        grid = Table.grid(expand=True)
        for _ in self._texts:
            grid.add_column(ratio=1)
        grid.add_row(*(self._panel(name) for name in self._texts))
        return grid

    def _panel(self, name: str) -> Panel:
        lines = self._texts[name].splitlines()[-self._height :]
        return Panel(Text("\n".join(lines)), title=name, subtitle=self._notes[name] or None, height=self._height + 2)


@contextmanager
def columns(console: Console, height: int) -> Iterator[Columns]:
    """Live on a terminal; elsewhere nothing is drawn until there are results."""
    if not console.is_terminal:
        yield Columns(None, height)
        return
    height = max(4, min(height, console.height - 4))
    with Live(console=console, refresh_per_second=20) as live:
        yield Columns(live, height)


def report(console: Console, file: str, runs: Mapping[str, Run]) -> Group:
    """What the runs came to."""
    diff = unified_diff(file, demo_case.unfenced(runs[WITH].text))
    shown = Syntax(diff, "diff", background_color="default") if console.is_terminal else Text(diff)
    return Group("", shown, "", figures(runs), "", Text(verdict(runs)), "", Text(CAVEAT))


def unified_diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "the file", "the answer", lineterm="")
    return "\n".join(lines) or "The answer is the file as it was."


def figures(runs: Mapping[str, Run]) -> Table:
    table = Table("", *runs, box=None, pad_edge=False)
    first = next(iter(runs.values()))
    rows = {
        "seconds in all": [f"{run.total:.2f}" for run in runs.values()],
        "seconds to the first text": [f"{run.first_text:.2f}" for run in runs.values()],
        "tokens": [f"{run.tokens}" for run in runs.values()],
        "prediction tokens accepted": [f"{run.accepted}" if run is first else "-" for run in runs.values()],
        "prediction tokens rejected": [f"{run.rejected}" if run is first else "-" for run in runs.values()],
        "passes saved by it": [f"{run.accepted}" if run is first else "-" for run in runs.values()],
    }
    for name, values in rows.items():
        table.add_row(name, *values)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def is_same(runs: Mapping[str, Run]) -> bool:
    return len({(run.text, run.tokens) for run in runs.values()}) == 1


def verdict(runs: Mapping[str, Run]) -> str:
    same = "yes" if is_same(runs) else "NO: please report this, with the model and the machine"
    off, without = (runs[name].total / runs[WITH].total for name in (OFF, WITHOUT))
    return (
        f"same tokens: {same}\n"
        f"The prediction: {off:.1f} times as fast as with speculation off, {without:.1f} times as fast as without it, "
        "where n-gram lookup finds the file in the prompt."
    ) + held_out(runs)


def held_out(runs: Mapping[str, Run]) -> str:
    """A control compares nothing with itself."""
    drawn = [name for name, run in runs.items() if run.is_control]
    if not drawn:
        return ""
    told = " and ".join(f"'{name}'" for name in drawn)
    return f"\nThe holdout drew {told}: it ran with speculation off. Run the demo again to compare."

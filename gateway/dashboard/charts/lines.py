"""Lines over the positions 1, 2, 3… of a draft. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.dashboard.charts.columns import HEIGHT, MOST_LABELS, Label, beneath
from gateway.dashboard.charts.scale import Mark
from gateway.dashboard.words import share


@dataclass(frozen=True, slots=True)
class Line:
    """`values` are shares, from 0 to 1; None: nothing is known there."""

    look: str
    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    look: str
    told: str


@dataclass(frozen=True, slots=True)
class Stroke:
    x1: float
    y1: float
    x2: float
    y2: float
    look: str


@dataclass(frozen=True, slots=True)
class Lines:
    height: float
    strokes: Sequence[Stroke]
    dots: Sequence[Dot]
    marks: Sequence[Mark]
    labels: Sequence[Label]


def over_positions(lines: Sequence[Line]) -> Lines:
    most = max((len(line.values) for line in lines), default=0)
    room = 100 / max(1, most)
    strokes: list[Stroke] = []
    dots: list[Dot] = []
    for line in lines:
        before: Dot | None = None
        for index, value in enumerate(line.values):
            if value is None:
                before = None
                continue
            told = f"{line.name}, position {index + 1}: {share(value)}"
            dot = Dot(round((index + 0.5) * room, 3), round(HEIGHT * (1 - value), 2), line.look, told)
            if before is not None:
                strokes.append(Stroke(before.x, before.y, dot.x, dot.y, line.look))
            dots.append(dot)
            before = dot
    marks = [Mark(HEIGHT * (1 - part / 4), share(part / 4, 0)) for part in range(5)]
    labels = beneath([str(position + 1) for position in range(most)], 2 * MOST_LABELS)
    return Lines(HEIGHT, strokes, dots, marks, labels)

"""Stacked columns, one for each bucket of time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gateway.dashboard.charts.scale import Mark, scale
from gateway.dashboard.words import mark

HEIGHT = 180.0
MOST_LABELS = 7
FILLED = 0.66
"""Of the room that a column has."""


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of a column: `look` is its class in the style sheet."""

    look: str
    value: int
    told: str


@dataclass(frozen=True, slots=True)
class Column:
    label: str
    parts: Sequence[Part]

    @property
    def sum(self) -> int:
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    look: str
    told: str


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    text: str
    is_spare: bool = False
    """Left out where there is little room."""


@dataclass(frozen=True, slots=True)
class Columns:
    height: float
    boxes: Sequence[Box]
    marks: Sequence[Mark]
    """From the top."""
    labels: Sequence[Label]


def stacked(columns: Sequence[Column]) -> Columns:
    """The first part of each stands at the bottom."""
    axis = scale(max((column.sum for column in columns), default=0), HEIGHT)
    room = 100 / max(1, len(columns))
    boxes: list[Box] = []
    for index, column in enumerate(columns):
        top = HEIGHT
        for part in column.parts:
            height = axis.size(part.value)
            if height:
                top -= height
                x, width = (index + (1 - FILLED) / 2) * room, FILLED * room
                boxes.append(Box(round(x, 2), round(top, 1), round(width, 2), round(height, 1), part.look, part.told))
    marks = [Mark(round(HEIGHT - one.at, 2), one.label) for one in axis.marks(mark)]
    return Columns(HEIGHT, boxes, marks, beneath([column.label for column in columns], MOST_LABELS))


def beneath(texts: Sequence[str], most: int) -> list[Label]:
    """At most so many of those that are not empty, each under its column or point."""
    room = 100 / max(1, len(texts))
    told = [(index, text) for index, text in enumerate(texts) if text]
    kept = told[:: max(1, ceil(len(told) / most))]
    return [Label(round((index + 0.5) * room, 3), text, place % 2 == 1) for place, (index, text) in enumerate(kept)]

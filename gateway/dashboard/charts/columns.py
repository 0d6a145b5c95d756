"""Stacked columns, one for each bucket of time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.dashboard.charts.scale import Mark, scale, thinned
from gateway.dashboard.words import short

HEIGHT = 180.0
MOST_LABELS = 6
FILLED = 0.72
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
                boxes.append(Box(round(x, 3), round(top, 2), round(width, 3), height, part.look, part.told))
    marks = [Mark(round(HEIGHT - mark.at, 2), mark.label) for mark in axis.marks(short)]
    texts = thinned([column.label for column in columns], MOST_LABELS)
    labels = [Label(round((index + 0.5) * room, 3), text) for index, text in enumerate(texts) if text]
    return Columns(HEIGHT, boxes, marks, labels)

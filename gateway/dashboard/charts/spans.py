"""Bars across: the middle of a distribution, and how far its slow end goes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.dashboard.charts.scale import scale


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Widths in percent."""

    span: Span
    middle: float
    end: float


def spans(of: Sequence[Span]) -> list[Bar]:
    axis = scale(max((span.p95 for span in of), default=0.0), 100.0)
    return [Bar(span, axis.size(span.p50), axis.size(span.p95)) for span in of]

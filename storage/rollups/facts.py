"""How a settled row counts, and the sums of many. Pure: the roll-ups, their rebuilding and the reports all count here.

Rows of releases that did not keep integer times are counted from their seconds. An `adjust` entry adds its micros to
the time and group it was written in, and nothing else.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from operator import add
from typing import Any

from storage.entries import TIMED
from storage.histogram import Histogram, bucket_of
from storage.values.usage import (
    COUNTED,
    LATENCIES,
    MEASURED,
    OUTCOMES,
    SUMMED,
    TIMINGS,
    GroupValue,
    Latency,
    ProposerTotals,
    UsageRow,
)

TIMES = tuple(f"{name}_us" for name in TIMINGS)
SECONDS = dict(zip(TIMED.values(), TIMED, strict=True))
_BILLED = len(OUTCOMES) + 2 + len(SUMMED)
_REST = (0,) * (len(COUNTED) - _BILLED)
MILLION = 1_000_000


class Facts:
    """The sums of rows: of one row, of a group, of an hour. Two of them add up."""

    __slots__ = ("by_proposer", "latencies", "sums")

    def __init__(self) -> None:
        self.sums: list[int] = [0] * len(COUNTED)
        self.latencies: Counter[tuple[Latency, int]] = Counter()
        """(duration, bucket of its histogram) → how many."""
        self.by_proposer: dict[str, ProposerTotals] = {}

    def add_row(self, row: Any) -> None:
        """A settled row or an adjustment, by the names of the ledger's columns."""
        if row.kind == "adjust":
            self._plus([0] * (len(OUTCOMES) + 1) + [row.micros] + [0] * (len(COUNTED) - len(OUTCOMES) - 2))
            return
        billed = [1, *(int(row.outcome == name) for name in OUTCOMES), 0, *(getattr(row, name) for name in SUMMED)]
        if not row.final:
            self._plus([*billed, *_REST])
            return
        decoded = row.generated_tokens - row.choices_with_output
        times = _times(row)
        worked = [getattr(row, name) for name in MEASURED]
        self._plus([*billed, 1, decoded, *worked, *times, *_acceptance(row)])
        self._time(times, decoded)
        for name, figures in row.by_proposer.items():
            self._propose(name, _totals(figures))

    def merge(self, other: "Facts") -> None:
        self._plus(other.sums)
        self.latencies.update(other.latencies)
        for name, totals in other.by_proposer.items():
            self._propose(name, totals)

    def as_row(self, bucket: datetime, group: Mapping[str, GroupValue]) -> UsageRow:
        sums = dict(zip(COUNTED, self.sums, strict=True))
        return UsageRow(
            bucket=bucket,
            group=group,
            sums={name: sums[name] for name in (*SUMMED, *MEASURED)},
            outcomes={name: sums[name] for name in OUTCOMES},
            timings={name: sums[column] for name, column in zip(TIMINGS, TIMES, strict=True)},
            latencies=_histograms(self.latencies),
            by_proposer=dict(sorted(self.by_proposer.items())),
            **{name: sums[name] for name in SINGLE},
        )

    def _plus(self, figures: list[int]) -> None:
        self.sums = list(map(add, self.sums, figures))

    def _time(self, times: list[int], decoded: int) -> None:
        latencies = self.latencies
        queue, prefill, decode, *_ = times
        latencies["queue", bucket_of(queue)] += 1
        latencies["prefill", bucket_of(prefill)] += 1
        if decoded > 0:
            latencies["decode", bucket_of(decode)] += 1
            latencies["token", bucket_of(decode // decoded)] += 1

    def _propose(self, name: str, totals: ProposerTotals) -> None:
        mine = self.by_proposer.get(name)
        self.by_proposer[name] = mine + totals if mine else totals


SINGLE = (
    "requests",
    "measured_requests",
    "decode_tokens",
    "drafting_requests",
    "acceptance_ppm",
    "adjust_micros",
)


def _times(row: Any) -> list[int]:
    """Microseconds by TIMES."""
    times = [getattr(row, name) for name in TIMES]
    if any(times) or not row.timings:
        return times
    return [round(row.timings.get(SECONDS[name], 0.0) * MILLION) for name in TIMES]


def _acceptance(row: Any) -> tuple[int, int]:
    """Whether anything was drafted, and accepted / drafted in parts per million."""
    drafted = row.drafted_tokens
    return (1, (2 * MILLION * row.accepted_tokens + drafted) // (2 * drafted)) if drafted > 0 else (0, 0)


def _totals(figures: Mapping[str, Any]) -> ProposerTotals:
    positions = tuple(figures.get("accepted_by_position", ()))
    while positions and not positions[-1]:
        positions = positions[:-1]
    return ProposerTotals(figures["drafts"], figures["drafted"], figures["accepted"], positions)


def _histograms(latencies: Mapping[tuple[Latency, int], int]) -> dict[Latency, Histogram]:
    counts: dict[Latency, dict[int, int]] = {name: {} for name in LATENCIES}
    for (name, bucket), count in sorted(latencies.items()):
        counts[name][bucket] = count
    return {name: Histogram(found) for name, found in counts.items()}

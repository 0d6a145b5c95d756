"""How a settled row counts, and the sums of many. Pure: the roll-ups, their rebuilding and the reports all count here.

Rows of releases that did not keep integer times are counted from their seconds. An `adjust` entry adds its micros to
the time and group it was written in, and nothing else.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import add, attrgetter
from typing import Any

from storage.entries import TIMED
from storage.histogram import NUM_BUCKETS as BUCKETS
from storage.histogram import Histogram, bucket_of
from storage.rollups.packed import added, told_length
from storage.values.ledger import ProposerFigures
from storage.values.usage import (
    COUNTED,
    LATENCIES,
    MEASURED,
    OUTCOMES,
    SUMMED,
    TIMINGS,
    GroupValue,
    Latency,
    UsageRow,
)

TIMES = tuple(f"{name}_us" for name in TIMINGS)
SECONDS = dict(zip(TIMED.values(), TIMED, strict=True))
_OUTCOMES = {name: tuple(int(name == other) for other in OUTCOMES) for name in OUTCOMES}
_NO_OUTCOME = (0,) * len(OUTCOMES)
_NO_REQUEST = (0,) * (1 + len(OUTCOMES))
_REST_OF_ADJUST = (0,) * (len(COUNTED) - len(_NO_REQUEST) - 1)
_NOT_MEASURED = (0,) * (len(COUNTED) - len(_NO_REQUEST) - 1 - len(SUMMED))
_billed, _worked, _kept_times = attrgetter(*SUMMED), attrgetter(*MEASURED), attrgetter(*TIMES)
MILLION = 1_000_000


class Facts:
    """The sums of rows: of one row, of a group, of an hour. Two of them add up."""

    __slots__ = ("by_proposer", "latencies", "sums")

    def __init__(self) -> None:
        self.sums: list[int] = [0] * len(COUNTED)
        self.latencies: dict[int, int] = {}
        """Number of the duration × BUCKETS + bucket of its histogram → how many."""
        self.by_proposer: dict[str, list[int]] = {}
        """drafts, drafted, accepted, then accepted at position 0, 1 …"""

    def add_row(self, row: Any) -> None:
        """A settled row or an adjustment, by the names of the ledger's columns."""
        if row.kind == "adjust":
            self._plus((*_NO_REQUEST, row.micros, *_REST_OF_ADJUST))
            return
        billed = (1, *_OUTCOMES.get(row.outcome, _NO_OUTCOME), 0, *_billed(row))
        if not row.final:
            self._plus((*billed, *_NOT_MEASURED))
            return
        decoded = row.generated_tokens - row.choices_with_output
        times = _times(row)
        self._plus((*billed, 1, decoded, *_worked(row), *times, *_acceptance(row)))
        self._time(times, decoded)
        for name, figures in row.by_proposer.items():
            positions = figures.get("accepted_by_position", ())
            self._propose(name, (figures["drafts"], figures["drafted"], figures["accepted"], *positions))

    def merge(self, other: "Facts") -> None:
        self._plus(other.sums)
        latencies = self.latencies
        for number, count in other.latencies.items():
            latencies[number] = latencies.get(number, 0) + count
        for name, counts in other.by_proposer.items():
            self._propose(name, counts)

    def as_row(self, bucket: datetime, group: Mapping[str, GroupValue]) -> UsageRow:
        sums = dict(zip(COUNTED, self.sums, strict=True))
        return UsageRow(
            bucket=bucket,
            group=group,
            sums={name: sums[name] for name in (*SUMMED, *MEASURED)},
            outcomes={name: sums[name] for name in OUTCOMES},
            timings={name: sums[column] for name, column in zip(TIMINGS, TIMES, strict=True)},
            latencies=_histograms(self.latencies),
            by_proposer={name: _totals(self.by_proposer[name]) for name in sorted(self.by_proposer)},
            **{name: sums[name] for name in SINGLE},
        )

    def _plus(self, figures: Sequence[int]) -> None:
        self.sums = list(map(add, self.sums, figures))

    def _time(self, times: Sequence[int], decoded: int) -> None:
        latencies = self.latencies
        queue, prefill, decode, *_ = times
        spent = (queue, prefill, decode, decode // decoded) if decoded > 0 else (queue, prefill)
        for number, micros in enumerate(spent):
            bucket = number * BUCKETS + bucket_of(micros)
            latencies[bucket] = latencies.get(bucket, 0) + 1

    def _propose(self, name: str, counts: Sequence[int]) -> None:
        mine = self.by_proposer.get(name)
        self.by_proposer[name] = list(counts) if mine is None else added(mine, counts)


SINGLE = (
    "requests",
    "measured_requests",
    "decode_tokens",
    "drafting_requests",
    "acceptance_ppm",
    "adjust_micros",
)


def _times(row: Any) -> tuple[int, ...]:
    """Microseconds by TIMES."""
    times: tuple[int, ...] = _kept_times(row)
    if any(times) or not row.timings:
        return times
    return tuple(round(row.timings.get(SECONDS[name], 0.0) * MILLION) for name in TIMES)


def _acceptance(row: Any) -> tuple[int, int]:
    """Whether anything was drafted, and accepted / drafted in parts per million."""
    drafted = row.drafted_tokens
    return (1, (2 * MILLION * row.accepted_tokens + drafted) // (2 * drafted)) if drafted > 0 else (0, 0)


def _totals(counts: Sequence[int]) -> ProposerFigures:
    drafts, drafted, accepted, *positions = counts[: told_length(counts)]
    return ProposerFigures(drafts, drafted, accepted, tuple(positions))


def _histograms(latencies: Mapping[int, int]) -> dict[Latency, Histogram]:
    counts: list[dict[int, int]] = [{} for _ in LATENCIES]
    for number in sorted(latencies):
        counts[number // BUCKETS][number % BUCKETS] = latencies[number]
    return {name: Histogram(found) for name, found in zip(LATENCIES, counts, strict=True)}

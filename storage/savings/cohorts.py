"""A group's requests by how they ran, and what that says of time saved. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.savings.holdout import estimate, lost_by_controls
from storage.savings.lengths import Lengths, compare_lengths
from storage.savings.matching import StrataSums
from storage.savings.modelled import Halves, model, whole
from storage.savings.observation import Cohort, Observation
from storage.savings.stratum import Stratum
from storage.savings.sums import Sums
from storage.savings.values import Holdout, Modelled, NotEnough


def _nothing() -> dict[Stratum, Sums]:
    return defaultdict(Sums)


@dataclass(slots=True)
class Cohorts:
    """Sums by stratum; those of controls in two halves."""

    treated: dict[Stratum, Sums] = field(default_factory=_nothing)
    undrawn: dict[Stratum, Sums] = field(default_factory=_nothing)
    halves: tuple[dict[Stratum, Sums], dict[Stratum, Sums]] = field(default_factory=lambda: (_nothing(), _nothing()))

    def add(self, seen: Observation) -> None:
        by_cohort: Mapping[Cohort, dict[Stratum, Sums]] = {
            "treated": self.treated,
            "undrawn": self.undrawn,
            "control": self.halves[seen.half],
        }
        by_cohort[seen.cohort][seen.stratum] += seen.sums


@dataclass(frozen=True, slots=True)
class Saving:
    """What a report says of a group."""

    drawn: Holdout | Modelled | NotEnough
    """Of requests that took part in the draw."""
    undrawn: Modelled | NotEnough | None
    """Of those that speculated without it (predictions, where their tenant did not agree); never added to `drawn`.
    None where there are none."""
    lost_us: int | None
    """What its own controls took longer than with speculation; None where nothing speculated beside them."""
    lengths: Lengths | None
    """Whether its answers are of one length with and without speculation; None where there are too few."""


def saving(group: Cohorts, controls: Halves, known: Halves) -> Saving:
    """`controls` are of whole deployments in the group's time; `known` of longer, for what has to be modelled."""
    own = whole(group.halves)
    return Saving(
        drawn=_drawn(group.treated, whole(controls), known),
        undrawn=model(group.undrawn, known) if group.undrawn else None,
        lost_us=lost_by_controls(group.treated, own),
        lengths=compare_lengths(group.treated, own),
    )


def _drawn(treated: StrataSums, controls: StrataSums, known: Halves) -> Holdout | Modelled | NotEnough:
    measured = estimate(treated, controls)
    if isinstance(measured, Holdout):
        return measured
    modelled = model(treated, known)
    return modelled if isinstance(modelled, Modelled) else measured

"""A group's requests by how they ran, and what that says of time saved. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.savings.holdout import estimate, lost_by_controls
from storage.savings.lengths import Lengths, compare_lengths
from storage.savings.matching import StrataSums
from storage.savings.modelled import Halves, model
from storage.savings.observation import Cohort, Observation
from storage.savings.stratum import Stratum
from storage.savings.sums import Sums
from storage.savings.values import Holdout, Modelled, NotEnough


@dataclass(slots=True)
class Cohorts:
    """Sums by stratum."""

    treated: dict[Stratum, Sums] = field(default_factory=dict)
    undrawn: dict[Stratum, Sums] = field(default_factory=dict)
    controls: tuple[dict[Stratum, Sums], dict[Stratum, Sums]] = field(default_factory=lambda: ({}, {}))
    """In two halves."""

    def add(self, seen: Observation) -> None:
        by_cohort: Mapping[Cohort, dict[Stratum, Sums]] = {
            "treated": self.treated,
            "undrawn": self.undrawn,
            "control": self.controls[seen.half],
        }
        sums = by_cohort[seen.cohort]
        known = sums.get(seen.stratum)
        sums[seen.stratum] = seen.sums if known is None else known + seen.sums

    @property
    def halves(self) -> Halves:
        return Halves(*self.controls)


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
    own = group.halves.whole
    return Saving(
        drawn=_drawn(group.treated, controls.whole, known),
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

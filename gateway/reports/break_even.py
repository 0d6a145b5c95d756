"""Whether speculation pays: what it spends on a token, against what the same deployment spends without it. Pure.

    cost       (draft + verify + coordination) ÷ confirmed tokens, of requests that speculate
    baseline   the same, of controls: requests that ran with the drafter off, by lot

Both are wall times of a request's own steps, that is what a client waits; the share of a pass that others had is in
both. Confirmed tokens are those decoded: each choice's first comes from prefill. Controls are those of the same
deployment, of every tenant and version, in the report's whole range: without a drafter its version says nothing, and
time per token follows the deployment, not whose text it is. Where a group spans deployments, each is compared with
its own controls.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.reports.figures import Object, ratio
from storage.usage import UsageRow

Verdict = Literal["pays", "does_not_pay", "not_enough_data"]
LEAST_CONTROLS = 30
"""For fewer, two times are no comparison."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Of some requests of one deployment."""

    requests: int = 0
    tokens: int = 0
    micros: int = 0

    @classmethod
    def of(cls, row: UsageRow) -> "Spent":
        times = row.timings
        return cls(row.measured_requests, row.decode_tokens, times["draft"] + times["verify"] + times["coordination"])

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.requests + other.requests, self.tokens + other.tokens, self.micros + other.micros)


ByDeployment = Mapping[str | None, Spent]


def by_deployment(rows: Iterable[UsageRow]) -> dict[str | None, Spent]:
    """Of rows that are grouped by deployment, among others."""
    spent: dict[str | None, Spent] = defaultdict(Spent)
    for row in rows:
        deployment = row.group["deployment_id"]
        assert not isinstance(deployment, int)
        spent[deployment] += Spent.of(row)
    return spent


def break_even(speculating: ByDeployment, controls: ByDeployment) -> Object:
    """`speculating`: a group's requests by deployment, without its controls."""
    ran = {deployment: spent for deployment, spent in speculating.items() if spent.tokens}
    found = {deployment: controls.get(deployment, Spent()) for deployment in ran}
    missing = max((_missing(one) for one in found.values()), default=0)
    tokens, micros = sum(one.tokens for one in ran.values()), sum(one.micros for one in ran.values())
    expected = None if missing else _expected(ran, found)
    return {
        "verdict": _verdict(micros, expected),
        "us_per_token": ratio(micros, tokens),
        "baseline_us_per_token": expected / tokens if expected is not None and tokens else None,
        "ratio": micros / expected if expected else None,
        "num_controls": sum(one.requests for one in found.values()),
        "missing_controls": missing,
        "control_scope": "deployment",
    }


def _missing(controls: Spent) -> int:
    """How many more requests must run without the drafter."""
    return max(LEAST_CONTROLS - controls.requests, 0 if controls.tokens else 1)


def _expected(ran: ByDeployment, controls: ByDeployment) -> float:
    """Microseconds for the same tokens without speculation."""
    return sum(one.tokens * controls[name].micros / controls[name].tokens for name, one in ran.items())


def _verdict(micros: int, expected: float | None) -> Verdict:
    if not expected:
        return "not_enough_data"
    return "pays" if micros < expected else "does_not_pay"

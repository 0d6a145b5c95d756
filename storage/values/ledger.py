"""Values of the ledger: what a request used, and its entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from storage.money import Used
from storage.texts import check_label, check_text
from storage.values.tenancy import RejectedPolicy

Outcome = Literal["completed", "disconnected", "error", "engine_lost", "interrupted", "refused"]
"""How a request ended: `engine_lost` the engine died, `interrupted` the gateway did (found by the reconciler),
`refused` the limits did not cover its true size: nothing is billed."""
Cohort = Literal["treated", "control"]
SpeculationMode = Literal["auto", "off"]


@dataclass(frozen=True, slots=True)
class ProposerFigures:
    """What one proposer's drafts came to, in one request or in many."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_by_position: tuple[int, ...] = ()

    @property
    def rejected(self) -> int:
        return self.drafted - self.accepted

    def __add__(self, other: "ProposerFigures") -> "ProposerFigures":
        positions = zip_longest(self.accepted_by_position, other.accepted_by_position, fillvalue=0)
        return ProposerFigures(
            self.drafts + other.drafts,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            tuple(mine + theirs for mine, theirs in positions),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What a request used, summed over its choices."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    """Emitted by the engine."""
    delivered_tokens: int = 0
    """Written to the socket."""
    visible_tokens: int = 0
    """Billed as visible: generated on end, error and disconnect; delivered where the engine died."""
    completion_tokens: int = 0
    """Visible, and rejected prediction tokens as the tenant's policy says (`billed_completion`)."""
    prediction_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0
    steps: int = 0
    idle_passes: int = 0
    accepted_delivered: int = 0
    choices_with_output: int = 0
    """Choices that emitted at least one token: their first tokens come from prefill, not from a step."""
    final: bool = False
    """True where every choice's figures are the engine's last word; the identities hold for these."""
    by_proposer: Mapping[str, ProposerFigures] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by name, as in `inference.protocol.Timings`."""
    batch_milli: int = 0
    """Mean number of sequences in the passes that decoded it, times 1000."""
    config_versions: Mapping[int, int] = field(default_factory=dict)
    """Drafter configuration version → steps run under it."""

    @property
    def used(self) -> Used:
        """What is billed."""
        rejected = self.completion_tokens - self.visible_tokens
        return Used(self.prompt_tokens, self.completion_tokens, self.cached_tokens, rejected)

    def __post_init__(self) -> None:
        for name in self.by_proposer:
            check_text("proposer", name, 64)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """A request is about to be answered. Written before its first byte."""

    request_id: str
    tenant_id: str
    key_id: str
    model: str
    route: str
    owner: str
    """The gateway process that will settle it (its epoch)."""
    rejected_prediction: RejectedPolicy = "free"
    choices: int = 1
    workload: str | None = None
    user_hash: str | None = None
    project_id: str | None = None
    """None: the tenant's default project."""
    deployment_id: str | None = None
    config_version: int | None = None
    """The drafter configuration at its admission; `Figures.config_versions` says under which it ran."""
    price_version: int | None = None
    """Of the deployment's prices, at its admission. None: it had none."""
    cohort: Cohort | None = None
    """`control` ran with speculation off, by lot. None: it took no part in the draw."""
    holdout_ppm: int | None = None
    """How likely it was to be a control, in parts per million."""
    sampled: bool | None = None
    """Whether its tokens were drawn at a temperature that is not greedy."""
    speculation: SpeculationMode | None = None
    """What the client asked for."""
    at: datetime | None = None
    """None: now."""

    def __post_init__(self) -> None:
        limits = {"request_id": 128, "tenant_id": 64, "key_id": 64, "model": 256, "route": 128, "owner": 128}
        for name, limit in limits.items():
            check_text(name, getattr(self, name), limit)
        if self.project_id is not None:
            check_text("project_id", self.project_id, 80)
        if self.deployment_id is not None:
            check_text("deployment_id", self.deployment_id, 64)
        if self.workload is not None:
            check_label("workload", self.workload)
        if self.user_hash is not None:
            check_text("user_hash", self.user_hash, 128)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a request. `figures.completion_tokens` is what its client was shown."""

    request_id: str
    outcome: Outcome
    figures: Figures
    at: datetime | None = None
    """None: now."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule of the ledger that an entry breaks."""

    rule: str
    request_id: str


def billed_completion(policy: RejectedPolicy, visible: int, accepted: int, rejected: int) -> int:
    """`completion_tokens`: visible, and of the rejected prediction tokens none, all, or as many as were accepted."""
    extra = {"free": 0, "billed": rejected, "capped": min(rejected, accepted)}[policy]
    return visible + extra

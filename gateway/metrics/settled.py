"""A request that ended, as the ledger knows it, with the labels that it is counted under."""

from dataclasses import dataclass, replace

from storage.values import Figures, Outcome

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Account:
    """Whose figures these are: all of them an operator's words."""

    tenant: str
    deployment: str
    drafter: str
    """Its kind at the request's admission; `off` where the request ran without any."""
    drafter_version: str


@dataclass(frozen=True, slots=True)
class Settled:
    account: Account
    model: str
    """The name it was asked by."""
    operation: str
    """OpenTelemetry's word."""
    outcome: Outcome
    figures: Figures
    seconds: float

    @property
    def pooled(self) -> "Settled":
        """For tenants and versions beyond those that have series of their own."""
        return replace(self, account=replace(self.account, tenant=OTHER, drafter_version=OTHER))

"""The plain values storage takes and gives: frozen, checked when made, all times aware and in UTC.

A value that a database could not keep (NUL, lone surrogate, oversized text) is refused here, before any
transaction, so that it can never cost a neighbour its row.
"""

from storage.values.ledger import (
    Cohort,
    Figures,
    OpenEntry,
    Outcome,
    Problem,
    ProposerFigures,
    Settlement,
    SpeculationMode,
    billed_completion,
)
from storage.values.tenancy import (
    ApiKey,
    KeyKind,
    NewKey,
    Project,
    RejectedPolicy,
    Role,
    ServiceAccount,
    Tenant,
    default_project,
)

__all__ = [
    "ApiKey",
    "Cohort",
    "Figures",
    "KeyKind",
    "NewKey",
    "OpenEntry",
    "Outcome",
    "Problem",
    "Project",
    "ProposerFigures",
    "RejectedPolicy",
    "Role",
    "ServiceAccount",
    "Settlement",
    "SpeculationMode",
    "Tenant",
    "billed_completion",
    "default_project",
]

"""The tables. The migrations make them; a test compares the two.

base          the registry, and how times are kept
installation  facts about the installation
tenancy       tenants → projects → service accounts and keys
deployments   models that are served, and their drafter configurations
prices        what their tokens cost
ledger        what requests used
rollups       its sums by hour and by day
savings       those that tell what speculation saved
workloads     labels of each tenant's work
limits        how much may be asked, and how much is
idempotency   requests that a client named itself
sessions      who is signed in at the dashboard
exports       how far the ledger has been told elsewhere
audit         who changed what
"""

from storage.models.audit import audit_ends, audit_events
from storage.models.base import EPOCH, MICROSECOND, UtcMicros, metadata
from storage.models.deployments import deployments, drafter_configs
from storage.models.exports import export_cursors
from storage.models.idempotency import idempotency_keys
from storage.models.installation import meta
from storage.models.ledger import ledger_entries, of_kind
from storage.models.limits import (
    budget_holds,
    budget_spent,
    gateways,
    limit_leases,
    limit_windows,
    limits,
    prices,
)
from storage.models.price_versions import deployment_prices
from storage.models.rollups import rollup_state, usage_days, usage_hours, usage_series
from storage.models.savings import savings_days, savings_hours
from storage.models.sessions import dashboard_sessions
from storage.models.tenancy import api_keys, projects, service_accounts, tenants
from storage.models.workloads import workload_labels

__all__ = [
    "EPOCH",
    "MICROSECOND",
    "UtcMicros",
    "api_keys",
    "audit_ends",
    "audit_events",
    "budget_holds",
    "budget_spent",
    "dashboard_sessions",
    "deployment_prices",
    "deployments",
    "drafter_configs",
    "export_cursors",
    "gateways",
    "idempotency_keys",
    "ledger_entries",
    "limit_leases",
    "limit_windows",
    "limits",
    "meta",
    "metadata",
    "of_kind",
    "prices",
    "projects",
    "rollup_state",
    "savings_days",
    "savings_hours",
    "service_accounts",
    "tenants",
    "usage_days",
    "usage_hours",
    "usage_series",
    "workload_labels",
]

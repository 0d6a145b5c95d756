"""The one table of who may call what: each route needs a scope, each scope may be held by some kinds of key.

A route that is not in `ROUTES` is refused at run time, and a test fails until it has a row. A key holds every scope
of its kind, or, where it was made with `scopes`, those alone; `self` is never taken away.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from gateway.errors import PermissionDenied
from storage.values import KeyKind

Scope = Literal[
    "self",
    "inference",
    "usage.read",
    "organization.read",
    "organization.write",
    "audit.read",
    "tenants.read",
    "tenants.write",
    "deployments.read",
    "deployments.write",
    "limits.read",
    "limits.write",
    "ledger.write",
    "metrics.read",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
KINDS: tuple[KeyKind, ...] = get_args(KeyKind)

OF_TENANT: frozenset[KeyKind] = frozenset({"tenant_admin", "operator"})
"""Organization routes: a tenant admin acts in its own tenant, an operator in the one `OpenAI-Organization` names."""
OF_OPERATOR: frozenset[KeyKind] = frozenset({"operator"})
HOLDERS: Mapping[Scope, frozenset[KeyKind]] = {
    "self": frozenset(KINDS),
    "inference": frozenset({"inference"}),
    "usage.read": OF_TENANT,
    "organization.read": OF_TENANT,
    "organization.write": OF_TENANT,
    "audit.read": OF_TENANT,
    "tenants.read": OF_OPERATOR,
    "tenants.write": OF_OPERATOR,
    "deployments.read": OF_OPERATOR,
    "deployments.write": OF_OPERATOR,
    "limits.read": OF_OPERATOR,
    "limits.write": OF_OPERATOR,
    "ledger.write": OF_OPERATOR,
    "metrics.read": OF_OPERATOR,
}

PROJECT = "/v1/organization/projects/{project_id}"
ADMIN_KEYS = "/v1/organization/admin_api_keys"
ORGANIZATION: Mapping[str, tuple[str, ...]] = {
    "/v1/organization/projects": ("GET", "POST"),
    PROJECT: ("GET", "POST"),
    f"{PROJECT}/archive": ("POST",),
    f"{PROJECT}/service_accounts": ("GET", "POST"),
    f"{PROJECT}/service_accounts/{{account_id}}": ("GET", "POST", "DELETE"),
    f"{PROJECT}/service_accounts/{{account_id}}/api_keys": ("POST",),
    f"{PROJECT}/api_keys": ("GET",),
    f"{PROJECT}/api_keys/{{key_id}}": ("GET", "POST", "DELETE"),
    f"{PROJECT}/api_keys/{{key_id}}/rotate": ("POST",),
    f"{PROJECT}/rate_limits": ("GET",),
    f"{PROJECT}/rate_limits/{{rate_limit_id}}": ("POST",),
    ADMIN_KEYS: ("GET", "POST"),
    f"{ADMIN_KEYS}/{{key_id}}": ("GET", "DELETE"),
    f"{ADMIN_KEYS}/{{key_id}}/rotate": ("POST",),
}
TENANTS: Mapping[str, tuple[str, ...]] = {
    "/admin/v1/tenants": ("GET", "POST"),
    "/admin/v1/tenants/{tenant_id}": ("GET", "PATCH"),
    "/admin/v1/tenants/{tenant_id}/erase": ("POST",),
    "/admin/v1/tenants/{tenant_id}/suspend": ("POST",),
    "/admin/v1/tenants/{tenant_id}/resume": ("POST",),
}
DEPLOYMENTS: Mapping[str, tuple[str, ...]] = {
    "/admin/v1/deployments": ("GET", "POST"),
    "/admin/v1/deployments/{deployment_id}": ("GET", "PATCH", "DELETE"),
    "/admin/v1/deployments/{deployment_id}/prices": ("GET", "PUT"),
    "/admin/v1/deployments/{deployment_id}/versions": ("GET",),
    "/admin/v1/deployments/{deployment_id}/rollback": ("POST",),
}
LIMITS: Mapping[str, tuple[str, ...]] = {"/admin/v1/limits/{scope}/{limited_id}": ("GET", "PATCH")}


def _rows(read: Scope, write: Scope, paths: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, str], Scope]:
    """A GET reads, every other method writes."""
    return {(method, path): read if method == "GET" else write for path, methods in paths.items() for method in methods}


NO_KEY = frozenset({("GET", "/livez"), ("GET", "/readyz"), ("GET", "/openapi.json")})
"""Answered to anyone."""
ROUTES: Mapping[tuple[str, str], Scope] = {
    ("POST", "/v1/chat/completions"): "inference",
    ("POST", "/v1/completions"): "inference",
    ("GET", "/v1/models"): "self",
    ("GET", "/v1/models/{model:path}"): "self",
    ("GET", "/v1/key"): "self",
    ("GET", "/v1/usage/requests/{request_id}"): "self",
    ("GET", "/v1/organization/usage/completions"): "usage.read",
    ("GET", "/v1/organization/usage/speculation"): "usage.read",
    ("GET", "/v1/organization/usage/entries"): "usage.read",
    ("GET", "/v1/organization/costs"): "usage.read",
    ("GET", "/v1/organization/usage/statement"): "usage.read",
    ("GET", "/v1/organization/audit_logs"): "audit.read",
    **_rows("organization.read", "organization.write", ORGANIZATION),
    ("GET", "/admin/v1/audit/verify"): "tenants.read",
    **_rows("tenants.read", "tenants.write", TENANTS),
    ("POST", "/admin/v1/requests/{request_id}/adjustments"): "ledger.write",
    **_rows("limits.read", "limits.write", LIMITS),
    **_rows("deployments.read", "deployments.write", DEPLOYMENTS),
    ("GET", "/metrics"): "metrics.read",
}
DEPLOYMENT_PAGE = "/dashboard/deployments/{deployment_id}"
PAGES: Mapping[tuple[str, str], Scope] = {
    ("GET", "/dashboard"): "self",
    ("GET", "/dashboard/usage.csv"): "self",
    ("GET", "/dashboard/limits"): "self",
    ("POST", "/dashboard/sign-out"): "self",
    ("GET", "/dashboard/deployments"): "deployments.read",
    ("GET", DEPLOYMENT_PAGE): "deployments.read",
    ("POST", DEPLOYMENT_PAGE): "deployments.write",
    ("POST", f"{DEPLOYMENT_PAGE}/rollback"): "deployments.write",
    ("GET", "/dashboard/{rest:path}"): "self",
}
"""The dashboard's, for the key that was signed in with. Under `self` a page shows no more than what it may read."""


def scopes_of(kind: KeyKind) -> tuple[Scope, ...]:
    """What a key of this kind may hold at most."""
    return tuple(scope for scope in SCOPES if kind in HOLDERS[scope])


def require(method: str, path: str, kind: KeyKind, scopes: frozenset[str] | None) -> None:
    """`path` is the route's template. Raises PermissionDenied, which names what is needed."""
    scope = ROUTES.get((method, path)) or PAGES.get((method, path))
    if scope is None:
        raise PermissionDenied("No key may call this.")
    if kind not in HOLDERS[scope]:
        needed = " or ".join(one.replace("_", " ") for one in KINDS if one in HOLDERS[scope])
        raise PermissionDenied(f"This needs a key of another kind: {needed}. The key sent is {kind.replace('_', ' ')}.")
    if scope != "self" and scopes is not None and scope not in scopes:
        raise PermissionDenied(f"This needs the scope {scope}, which the key sent was made without.")


def holds(scope: Scope, kind: KeyKind, scopes: frozenset[str] | None) -> bool:
    """Whether a key may do what this scope lets."""
    return kind in HOLDERS[scope] and (scope == "self" or scopes is None or scope in scopes)

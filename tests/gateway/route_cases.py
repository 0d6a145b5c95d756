"""What the two-tenant matrix needs to know of a route to call it: its body, and whose thing each path parameter is.

A route that is called without a body and has only known parameters needs no row here.
"""

from dataclasses import dataclass
from typing import Any

from storage.api_keys import ApiKeys
from storage.database import Session
from storage.deployments import Deployments
from storage.ids import uuid7
from storage.ledger import Ledger
from storage.projects import Projects
from storage.service_accounts import ServiceAccounts
from storage.tenants import Tenants
from storage.values import Figures, KeyKind, OpenEntry, Settlement
from storage.values.deployments import DeploymentSpec
from tests.gateway.running import MODEL, chat_body

NAME = {"name": "matrix"}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/chat/completions"): chat_body(),
    ("POST", "/v1/completions"): {"model": MODEL, "prompt": "x"},
    ("POST", "/v1/organization/projects"): NAME,
    ("POST", "/v1/organization/projects/{project_id}"): NAME,
    ("POST", "/v1/organization/projects/{project_id}/service_accounts"): NAME,
    ("POST", "/v1/organization/projects/{project_id}/service_accounts/{account_id}"): NAME,
    ("POST", "/v1/organization/projects/{project_id}/service_accounts/{account_id}/api_keys"): NAME,
    ("POST", "/v1/organization/projects/{project_id}/api_keys/{key_id}"): NAME,
    ("POST", "/v1/organization/projects/{project_id}/rate_limits/{rate_limit_id}"): {"max_requests_per_1_minute": 9},
    ("POST", "/v1/organization/admin_api_keys"): NAME,
    ("POST", "/admin/v1/tenants"): NAME,
    ("PATCH", "/admin/v1/tenants/{tenant_id}"): NAME,
    ("PATCH", "/admin/v1/limits/{scope}/{limited_id}"): {"concurrency": 9},
    ("POST", "/admin/v1/requests/{request_id}/adjustments"): {"micros": 1, "reason": "matrix"},
    ("POST", "/admin/v1/deployments"): {
        "name": "matrix",
        "model": "m",
        "engine_url": "http://[::1]:9",
        "enabled": False,
    },
    ("PATCH", "/admin/v1/deployments/{deployment_id}"): {"max_sequences": 9, "reason": "matrix"},
    ("PUT", "/admin/v1/deployments/{deployment_id}/prices"): {"input": 1, "output": 2, "reason": "matrix"},
    ("POST", "/admin/v1/deployments/{deployment_id}/rollback"): {"version": 1, "reason": "matrix"},
}
QUERIES: dict[tuple[str, str], dict[str, str]] = {
    ("GET", "/v1/organization/usage/statement"): {"month": "2026-11"},
    ("GET", "/v1/organization/usage/completions"): {"start_time": "0"},
    ("GET", "/v1/organization/usage/speculation"): {"start_time": "0"},
    ("GET", "/v1/organization/costs"): {"start_time": "0"},
}
SHARED = {"model:path": MODEL, "scope": "tenant"}
"""Parameters that name what belongs to no tenant."""


@dataclass(frozen=True)
class Owned:
    """What one tenant has, of everything that a path can name."""

    tenant_id: str
    project_id: str
    account_id: str
    key_id: str
    admin_key_id: str
    deployment_id: str
    """Nobody's but the operators'."""
    request_id: str
    keys: dict[KeyKind, str]

    def of(self, path: str, parameter: str) -> str:
        """The value of a path parameter of this route."""
        if parameter == "key_id" and "admin_api_keys" in path:
            return self.admin_key_id
        if parameter == "rate_limit_id":
            return f"rl-{self.project_id}"
        if parameter == "limited_id":
            return self.tenant_id
        return str(getattr(self, parameter))


UNKNOWN: dict[str, str] = {
    "tenant_id": "nobody",
    "project_id": "proj_nowhere",
    "account_id": "svc_acct_nobody",
    "key_id": "unknown00000",
    "rate_limit_id": "rl-nowhere",
    "deployment_id": "dep_nowhere",
    "limited_id": "nobody",
    "request_id": "nothing",
}


async def owned(session: Session) -> Owned:
    """A new tenant with one of everything."""
    tenant_id = f"t{uuid7()}"
    await Tenants(session).create(tenant_id, tenant_id)
    project = await Projects(session, tenant_id).create(f"project of {tenant_id}")
    account = await ServiceAccounts(session, project.id).create(f"account of {tenant_id}", "member")
    keys = ApiKeys(session)
    of_account: Any = {"project_id": project.id, "service_account_id": account.id}
    spec = DeploymentSpec(f"model of {tenant_id}", "m", engine_url=f"http://{tenant_id}.invalid", enabled=False)
    deployment = await Deployments(session).create(spec, {}, "system", "matrix")
    assert deployment is not None
    kinds: tuple[KeyKind, ...] = ("inference", "tenant_admin", "operator")
    made = {kind: await keys.create(tenant_id, kind, f"{kind} of {tenant_id}") for kind in kinds}
    return Owned(
        tenant_id=tenant_id,
        project_id=project.id,
        account_id=account.id,
        key_id=(await keys.create(tenant_id, "inference", f"key of {tenant_id}", **of_account)).public_id,
        admin_key_id=(await keys.create(tenant_id, "tenant_admin", f"admin of {tenant_id}")).public_id,
        deployment_id=deployment.id,
        request_id=await _ended(session, tenant_id, made["inference"].public_id),
        keys={kind: new.key for kind, new in made.items()},
    )


async def _ended(session: Session, tenant_id: str, key_id: str) -> str:
    """The id of a request of this key that is settled."""
    ledger, id = Ledger(session), f"request of {tenant_id}"
    await ledger.open(OpenEntry(id, tenant_id, key_id, MODEL, "/v1/completions", "home:1"))
    await ledger.settle(Settlement(id, "completed", Figures()))
    return id

"""What each route takes and answers: one row a route, in the order of `access.ROUTES`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from gateway.access import ADMIN_KEYS, PROJECT
from gateway.api.ledger import NewAdjustment
from gateway.api.limits import LimitsDocument
from gateway.api.prices import NewPrices
from gateway.deployments.changes import NewDeployment, Rollback
from gateway.openai import organization_schema as organization
from gateway.openai.schema import ChatRequest, CompletionRequest
from gateway.openapi import parameters as p
from gateway.openapi.answers import STRING, Object, list_of, ref

ACCOUNT = f"{PROJECT}/service_accounts/{{account_id}}"
PROJECT_KEY = f"{PROJECT}/api_keys/{{key_id}}"
TENANT = "/admin/v1/tenants/{tenant_id}"
DEPLOYMENT = "/admin/v1/deployments/{deployment_id}"


@dataclass(frozen=True, slots=True)
class Operation:
    summary: str
    answer: Object
    body: type[BaseModel] | None = None
    parameters: tuple[Object, ...] = ()
    is_patch: bool = False
    """The body is a merge patch: any part of `body`, each member may be null."""
    streams: bool = False
    is_table: bool = False
    """Answered as CSV too."""
    body_may_be_left_out: bool = False
    is_text: bool = False
    """The answer is plain text."""


def _one_of(*names: str) -> Object:
    return {"anyOf": [ref(name) for name in names]}


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/livez"): Operation("Whether this process answers", ref("Status")),
    ("GET", "/readyz"): Operation("Whether it takes requests; else what it waits for", ref("Status")),
    ("GET", "/openapi.json"): Operation("This document", ref("Document")),
    ("POST", "/v1/chat/completions"): Operation(
        "A chat completion", ref("ChatCompletion"), ChatRequest, (p.IDEMPOTENCY,), streams=True
    ),
    ("POST", "/v1/completions"): Operation(
        "A completion", ref("Completion"), CompletionRequest, (p.IDEMPOTENCY,), streams=True
    ),
    ("GET", "/v1/models"): Operation("What the key may use", ref("ModelList")),
    ("GET", "/v1/models/{model:path}"): Operation("One model", ref("Model")),
    ("GET", "/v1/key"): Operation("What the key may do, and how its limits stand", ref("Key")),
    ("GET", "/v1/usage/requests/{request_id}"): Operation(
        "What one request used, how long it took and what it cost", ref("UsageRequest")
    ),
    ("GET", "/v1/organization/usage/completions"): Operation(
        "Usage, in OpenAI's shape", ref("UsagePage"), None, (*p.COMPLETIONS, p.ORGANIZATION), is_table=True
    ),
    ("GET", "/v1/organization/usage/speculation"): Operation(
        "What speculation did, and whether it pays",
        ref("UsagePage"),
        None,
        (*p.SPECULATION, p.ORGANIZATION),
        is_table=True,
    ),
    ("GET", "/v1/organization/costs"): Operation(
        "What each day added to the month's bill", ref("UsagePage"), None, (*p.COSTS, p.ORGANIZATION), is_table=True
    ),
    ("GET", "/v1/organization/usage/entries"): Operation(
        "Settlements and adjustments one by one",
        list_of("UsageEntry"),
        None,
        (*p.ENTRIES, p.ORGANIZATION),
        is_table=True,
    ),
    ("GET", "/v1/organization/usage/statement"): Operation(
        "What a month costs, line by line", ref("Statement"), None, (p.MONTH, p.ORGANIZATION)
    ),
    ("GET", "/v1/organization/audit_logs"): Operation(
        "What was changed, newest first", list_of("AuditLog"), None, (*p.AUDIT, p.ORGANIZATION)
    ),
    ("GET", "/v1/organization/projects"): Operation(
        "Projects", list_of("Project"), None, (*p.PAGE, p.ARCHIVED, p.ORGANIZATION)
    ),
    ("POST", "/v1/organization/projects"): Operation(
        "A new project", ref("Project"), organization.ProjectCreate, (p.ORGANIZATION,)
    ),
    ("GET", PROJECT): Operation("One project", ref("Project"), None, (p.ORGANIZATION,)),
    ("POST", PROJECT): Operation(
        "Rename a project", ref("Project"), organization.ProjectUpdate, (p.ORGANIZATION, p.MAY_MATCH)
    ),
    ("POST", f"{PROJECT}/archive"): Operation(
        "End a project, for good", ref("Project"), None, (p.ORGANIZATION, p.MAY_MATCH)
    ),
    ("GET", f"{PROJECT}/service_accounts"): Operation(
        "Service accounts", list_of("ServiceAccount"), None, (*p.PAGE, p.ORGANIZATION)
    ),
    ("POST", f"{PROJECT}/service_accounts"): Operation(
        "A new service account, with its first key",
        ref("ServiceAccount"),
        organization.ServiceAccountCreate,
        (p.ORGANIZATION,),
    ),
    ("GET", ACCOUNT): Operation("One service account", ref("ServiceAccount"), None, (p.ORGANIZATION,)),
    ("POST", ACCOUNT): Operation(
        "Change a service account",
        ref("ServiceAccount"),
        organization.ServiceAccountUpdate,
        (p.ORGANIZATION, p.MAY_MATCH),
    ),
    ("DELETE", ACCOUNT): Operation("End an account and its keys", ref("Deleted"), None, (p.ORGANIZATION,)),
    ("POST", f"{ACCOUNT}/api_keys"): Operation(
        "A new key", ref("NewApiKey"), organization.KeyCreate, (p.ORGANIZATION,), body_may_be_left_out=True
    ),
    ("GET", f"{PROJECT}/api_keys"): Operation("Keys", list_of("ApiKey"), None, (*p.PAGE, p.ACCESS, p.ORGANIZATION)),
    ("GET", PROJECT_KEY): Operation("One key", ref("ApiKey"), None, (p.ORGANIZATION,)),
    ("POST", PROJECT_KEY): Operation(
        "Change a key", ref("ApiKey"), organization.KeyUpdate, (p.ORGANIZATION, p.MAY_MATCH)
    ),
    ("DELETE", PROJECT_KEY): Operation("Revoke a key", ref("Deleted"), None, (p.ORGANIZATION,)),
    ("POST", f"{PROJECT_KEY}/rotate"): Operation(
        "Another key in its place",
        ref("NewApiKey"),
        organization.KeyRotate,
        (p.ORGANIZATION, p.MAY_MATCH),
        body_may_be_left_out=True,
    ),
    ("GET", f"{PROJECT}/rate_limits"): Operation(
        "A project's limits, as OpenAI tells them", list_of("RateLimit"), None, (*p.PAGE, p.BEFORE, p.ORGANIZATION)
    ),
    ("POST", f"{PROJECT}/rate_limits/{{rate_limit_id}}"): Operation(
        "Change them", ref("RateLimit"), organization.RateLimitUpdate, (p.ORGANIZATION, p.MAY_MATCH)
    ),
    ("GET", ADMIN_KEYS): Operation("Admin keys", list_of("AdminApiKey"), None, (*p.PAGE, p.ORDER, p.ORGANIZATION)),
    ("POST", ADMIN_KEYS): Operation(
        "A new admin key", ref("AdminApiKey"), organization.AdminKeyCreate, (p.ORGANIZATION,)
    ),
    ("GET", f"{ADMIN_KEYS}/{{key_id}}"): Operation("One admin key", ref("AdminApiKey"), None, (p.ORGANIZATION,)),
    ("DELETE", f"{ADMIN_KEYS}/{{key_id}}"): Operation("Revoke it", ref("Deleted"), None, (p.ORGANIZATION,)),
    ("POST", f"{ADMIN_KEYS}/{{key_id}}/rotate"): Operation(
        "Another in its place",
        ref("AdminApiKey"),
        organization.KeyRotate,
        (p.ORGANIZATION,),
        body_may_be_left_out=True,
    ),
    ("GET", "/admin/v1/audit/verify"): Operation("Whether the audit log's chain holds", ref("AuditReport")),
    ("GET", "/admin/v1/tenants"): Operation("Tenants", list_of("Tenant"), None, p.PAGE),
    ("POST", "/admin/v1/tenants"): Operation("A new tenant", ref("Tenant"), organization.TenantCreate),
    ("GET", TENANT): Operation("One tenant", ref("Tenant")),
    ("PATCH", TENANT): Operation(
        "Change a tenant", ref("Tenant"), organization.TenantDocument, (p.IF_MATCH,), is_patch=True
    ),
    ("POST", f"{TENANT}/erase"): Operation("End it for good; what it used stays counted", ref("Tenant")),
    ("POST", f"{TENANT}/suspend"): Operation("Refuse its keys", ref("Tenant")),
    ("POST", f"{TENANT}/resume"): Operation("Take its keys again", ref("Tenant")),
    ("POST", "/admin/v1/requests/{request_id}/adjustments"): Operation(
        "Correct what a request cost", ref("Adjustment"), NewAdjustment
    ),
    ("GET", "/admin/v1/limits/{scope}/{limited_id}"): Operation("Limits, and how they stand", ref("Limits")),
    ("PATCH", "/admin/v1/limits/{scope}/{limited_id}"): Operation(
        "Change limits",
        _one_of("Limits", "LimitsPlan"),
        LimitsDocument,
        (p.IF_MATCH, p.DRY_RUN),
        is_patch=True,
    ),
    ("GET", "/admin/v1/deployments"): Operation("Deployments", list_of("Deployment")),
    ("POST", "/admin/v1/deployments"): Operation(
        "A new deployment", _one_of("Deployment", "DeploymentPlan"), NewDeployment, (p.DRY_RUN, p.REASON)
    ),
    ("GET", DEPLOYMENT): Operation("One deployment", ref("Deployment")),
    ("PATCH", DEPLOYMENT): Operation(
        "Change a deployment, its drafters while it answers",
        _one_of("Deployment", "DeploymentPlan"),
        NewDeployment,
        (p.IF_MATCH, p.DRY_RUN, p.REASON),
        is_patch=True,
    ),
    ("DELETE", DEPLOYMENT): Operation("End a deployment", ref("Deleted"), None, (p.MAY_MATCH, p.REASON)),
    ("GET", f"{DEPLOYMENT}/prices"): Operation("What its tokens cost, and what they did", ref("Prices")),
    ("PUT", f"{DEPLOYMENT}/prices"): Operation("Other prices", ref("Prices"), NewPrices, (p.IF_MATCH,)),
    ("GET", f"{DEPLOYMENT}/versions"): Operation("Its drafter configurations", list_of("DeploymentVersion")),
    ("POST", f"{DEPLOYMENT}/rollback"): Operation(
        "An old configuration, as a new version", ref("Deployment"), Rollback, (p.MAY_MATCH,)
    ),
    ("GET", "/metrics"): Operation("For Prometheus; SPECGATE_METRICS_TOKEN will do too", STRING, is_text=True),
}


def path_parameters(path: str) -> list[Any]:
    """Of a route's template."""
    names = [part.strip("{}").partition(":")[0] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": _path_schema(name)} for name in names]


def _path_schema(name: str) -> Object:
    return {"enum": ["tenant", "project", "key"]} if name == "scope" else p.TEXT

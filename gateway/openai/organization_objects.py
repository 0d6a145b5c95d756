"""Tenants, projects, service accounts, keys and audit events as OpenAI's clients read them. Pure.

Members that are ours stand beside OpenAI's. A key's secret is in one answer alone, that which makes it (`value`).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from storage.values import ApiKey, NewKey, Project, ServiceAccount, Tenant
from storage.values.audit import AuditEvent

Object = dict[str, Any]
CREATED = ".created"


def listing(data: Sequence[Object], has_more: bool) -> Object:
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"object": "list", "data": list(data), "has_more": has_more, **ends}


def deleted(kind: str, id: str) -> Object:
    return {"object": f"{kind}.deleted", "id": id, "deleted": True}


def project_object(project: Project) -> Object:
    return {
        "object": "organization.project",
        "id": project.id,
        "name": project.name,
        "created_at": seconds(project.created_at),
        "archived_at": seconds(project.archived_at),
        "status": "archived" if project.archived_at else "active",
        "external_key_id": None,
        "is_default": project.is_default,
        "version": project.version,
    }


def account_object(account: ServiceAccount) -> Object:
    return {
        "object": "organization.project.service_account",
        "id": account.id,
        "name": account.name,
        "role": account.role,
        "created_at": seconds(account.created_at),
        "version": account.version,
    }


def key_object(key: ApiKey, owner: ServiceAccount | None) -> Object:
    """A key of a project. One without a service account was made by the first start or on the machine."""
    account = None
    if owner is not None:
        account = {"id": owner.id, "name": owner.name, "role": owner.role, "created_at": seconds(owner.created_at)}
    return {
        "object": "organization.project.api_key",
        **_of_any_key(key),
        "owner": {"type": "service_account" if account else None, "service_account": account, "user": None},
        "owner_project_access": "active",
        "allowed_models": None if key.allowed_models is None else list(key.allowed_models),
    }


def new_key_object(key: ApiKey, new: NewKey) -> Object:
    """The one answer that holds the secret."""
    return {"object": "organization.project.service_account.api_key", **_of_any_key(key), "value": new.key}


def admin_key_object(key: ApiKey) -> Object:
    owner = {"object": "organization", "type": "organization", "id": key.tenant_id, "role": "owner"}
    return {
        "object": "organization.admin_api_key",
        **_of_any_key(key),
        "owner": owner | {"name": None, "created_at": None},
        "kind": key.kind,
    }


def _of_any_key(key: ApiKey) -> Object:
    return {
        "id": key.public_id,
        "name": key.name,
        "redacted_value": f"sk-sg-{key.public_id}-…",
        "created_at": seconds(key.created_at),
        "expires_at": seconds(key.expires_at),
        "last_used_at": seconds(key.last_used_at),
        "scopes": [] if key.scopes is None else list(key.scopes),
        "rotated_from": key.rotated_from,
        "overlap_until": seconds(key.overlap_until),
        "version": key.version,
    }


def tenant_object(tenant: Tenant) -> Object:
    return {
        "object": "tenant",
        "id": tenant.id,
        "name": tenant.name,
        "rejected_prediction": tenant.rejected_prediction,
        "holdout_includes_prediction": tenant.holdout_includes_prediction,
        "status": "erased" if tenant.erased_at else "suspended" if tenant.suspended_at else "active",
        "created_at": seconds(tenant.created_at),
        "suspended_at": seconds(tenant.suspended_at),
        "erased_at": seconds(tenant.erased_at),
        "version": tenant.version,
    }


def audit_object(event: AuditEvent) -> Object:
    """`type` names the member that has the details, as at OpenAI."""
    actor = event.actor
    key = {"id": actor.id, "type": "service_account", "service_account": None, "user": None}
    is_key = actor.kind == "api_key"
    return {
        "object": "organization.audit_log",
        "id": event.id,
        "type": event.action,
        "effective_at": seconds(event.at),
        "actor": {"type": actor.kind, "api_key": key if is_key else None, "session": None, "name": actor.id},
        "project": {"id": event.project_id, "name": None} if event.project_id else None,
        event.action: _told(event),
        "before": event.before,
        "after": event.after,
        "organization_id": event.tenant_id,
        "request_id": actor.request_id,
        "source": actor.source,
        "seq": event.seq,
        "mac": event.mac,
    }


def _told(event: AuditEvent) -> Object:
    told = {"id": event.target}
    if event.after is None:
        return told
    return told | {"data" if event.action.endswith(CREATED) else "changes_requested": dict(event.after)}


def seconds(at: datetime | None) -> int | None:
    """Unix seconds, as OpenAI tells times."""
    return None if at is None else int(at.timestamp())

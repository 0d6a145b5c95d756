"""The shapes of answers. Objects may gain members; those named here are always there."""

from typing import Any

from storage.money import ITEMS

Object = dict[str, Any]
COUNT: Object = {"type": "integer", "minimum": 0}
STRING: Object = {"type": "string"}


def ref(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(kind: str, /, **members: Object) -> Object:
    """An object that names its kind."""
    properties = {"object": {"const": kind}, **members}
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(kind: str) -> Object:
    members: dict[str, Object] = {"data": {"type": "array", "items": ref(kind)}, "has_more": {"type": "boolean"}}
    return object_of("list", **members)


ERROR: Object = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": STRING,
                "type": STRING,
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
USAGE: Object = {
    "type": "object",
    "properties": {name: COUNT for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
    "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
}
CHOICES: Object = {"type": "array", "items": {"type": "object", "required": ["index", "finish_reason"]}}
SCHEMAS: Object = {
    "Error": ERROR,
    "ChatCompletion": object_of(
        "chat.completion", id=STRING, created=COUNT, model=STRING, choices=CHOICES, usage=USAGE
    ),
    "Completion": object_of("text_completion", id=STRING, created=COUNT, model=STRING, choices=CHOICES, usage=USAGE),
    "Model": object_of("model", id=STRING, created=COUNT, owned_by=STRING),
    "ModelList": object_of("list", data={"type": "array", "items": ref("Model")}),
    "Key": object_of("key", id=STRING, kind=STRING, scopes={"type": "array"}, limits={"type": "array"}),
    "UsagePage": object_of("page", data={"type": "array"}, has_more={"type": "boolean"}),
    "UsageEntry": object_of("usage.entry", id=STRING, kind=STRING, at=COUNT, request_id=STRING),
    "Project": object_of("organization.project", id=STRING, name=STRING, status=STRING, version=COUNT),
    "ServiceAccount": object_of("organization.project.service_account", id=STRING, name=STRING, version=COUNT),
    "ApiKey": object_of("organization.project.api_key", id=STRING, redacted_value=STRING, version=COUNT),
    "NewApiKey": object_of("organization.project.service_account.api_key", id=STRING, value=STRING, version=COUNT),
    "AdminApiKey": object_of("organization.admin_api_key", id=STRING, redacted_value=STRING, version=COUNT),
    "RateLimit": object_of("project.rate_limit", id=STRING, model=STRING, version=COUNT),
    "AuditLog": object_of("organization.audit_log", id=STRING, type=STRING, seq=COUNT, mac=STRING),
    "AuditReport": object_of("audit_report", holds={"type": "boolean"}, problems={"type": "array"}),
    "Tenant": object_of("tenant", id=STRING, name=STRING, status=STRING, version=COUNT),
    "Limits": object_of("limits", scope=STRING, id=STRING, version=COUNT),
    "LimitsPlan": object_of("limits.dry_run", changes={"type": "array"}),
    "Deployment": object_of("deployment", id=STRING, name=STRING, speculation={"type": "object"}, version=COUNT),
    "DeploymentPlan": object_of("deployment.plan", changes={"type": "array"}),
    "DeploymentVersion": object_of("deployment.version", version=COUNT, author=STRING, reason=STRING),
    "Prices": object_of(
        "deployment.prices", id=STRING, currency=STRING, **{item: COUNT for item in ITEMS}, history={"type": "array"}
    ),
    "Statement": object_of(
        "usage.statement", month=STRING, currency=STRING, lines={"type": "array"}, total_micros={"type": "integer"}
    ),
    "Adjustment": object_of("ledger.adjustment", id=STRING, request_id=STRING, micros={"type": "integer"}),
    "UsageRequest": object_of(
        "usage.request",
        id=STRING,
        status={"enum": ["running", "settled"]},
        **{name: {"type": "object"} for name in ("usage", "timings", "speculation", "cost")},
    ),
    "Deleted": {
        "type": "object",
        "properties": {"object": STRING, "id": STRING, "deleted": {"const": True}},
        "required": ["object", "id", "deleted"],
    },
    "Status": {"type": "object", "properties": {"status": STRING}, "required": ["status"]},
    "Document": {"type": "object", "properties": {"openapi": STRING}, "required": ["openapi", "paths"]},
}

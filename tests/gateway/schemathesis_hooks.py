"""What an OpenAPI document cannot say, for `schemathesis run` (SCHEMATHESIS_HOOKS).

Which key a route wants; relations between two members; a model or an engine that would be looked for outside the
test; and that nobody saws off the branch they sit on: the deployment and the keys that the run itself needs stay.
"""

import json
import os
import unicodedata
from typing import Any

import schemathesis

from gateway.usage_query import LATEST

KEYS = json.loads(os.environ["SPECGATE_TEST_KEYS"])
OWN = {KEYS[name].split("-")[2] for name in ("inference_key", "operator_key")} | {"dep_default"}
INFERENCE = ("/v1/chat/completions", "/v1/completions")
REPORTS = tuple(f"/v1/organization/{name}" for name in ("usage/completions", "usage/speculation", "costs"))
NOWHERE = "http://[::1]:9"


@schemathesis.auth()
class Key:
    def get(self, case: Any, context: Any) -> str:
        return str(KEYS["inference_key" if case.path in INFERENCE else "operator_key"])

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers = case.headers or {}
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if case.method in ("DELETE", "PATCH", "POST") and OWN.intersection(map(str, (case.path_parameters or {}).values())):
        case.path_parameters = {name: "nowhere" for name in case.path_parameters}
    if isinstance(case.body, dict):
        _relate(case.path, case.body)
    if case.path in REPORTS and isinstance(case.query, dict):
        _relate_usage(case.query)


def _relate(path: str, body: dict[str, Any]) -> None:
    if path in ("/admin/v1/deployments", "/admin/v1/deployments/{deployment_id}"):
        _relate_deployment(body)
    if path.startswith("/admin/v1/deployments") and body.get("reason") is None:
        body["reason"] = "generated"
    if path.endswith("/rollback") and _is_int(body.get("version")) and body["version"] > 0:
        body["version"] = 1  # the one that there always is
    if body.get("max_tokens") and body.get("max_completion_tokens"):
        del body["max_tokens"]
    if isinstance(body.get("stream_options"), dict) and isinstance(body.get("stream"), bool | None):
        body["stream"] = True
    if path == "/v1/completions":
        body.pop("best_of", None)
        if isinstance(body.get("prompt"), list) and isinstance(body.get("n"), int):
            body["n"] = 1
    if path == "/v1/organization/admin_api_keys" and isinstance(body.get("scopes"), list):
        body["kind"] = "operator"  # which holds every scope but that of the other kind
        body["scopes"] = [scope for scope in body["scopes"] if scope != "inference"]
    if body.get("create_service_account_only") is True:
        body.pop("expires_in_seconds", None)


def _relate_deployment(body: dict[str, Any]) -> None:
    if isinstance(body.get("enabled", True), bool):
        body["enabled"] = False
    if isinstance(body.get("engine_url"), str | None):
        body["engine_url"] = NOWHERE
        if _is_int(body.get("replicas")):
            body["replicas"] = 1
    if isinstance(body.get("name"), str):
        body["name"] = "".join(map(_printable, body["name"]))
    if isinstance(body.get("aliases"), list):
        body["aliases"] = [alias for alias in body["aliases"] if not isinstance(alias, dict)]
    speculation = body.get("speculation")
    if isinstance(speculation, dict):
        drafter = speculation.get("drafter")
        if isinstance(drafter, dict) and drafter.get("scope") == "tenant" and isinstance(drafter.get("kind", ""), str):
            drafter["kind"] = "suffix"
        _order(speculation.get("adaptive"), ("start", "minimum"), "maximum", 64)
        _order(drafter.get("ngram") if isinstance(drafter, dict) else None, ("min",), "max", 5)


def _order(holder: Any, lower: tuple[str, ...], upper: str, default: int) -> None:
    if isinstance(holder, dict) and _is_int(holder.get(upper, default)):
        for name in lower:
            if _is_int(holder.get(name, 1)):
                holder[name] = min(holder.get(name, 1), holder.get(upper, default))


def _printable(character: str) -> str:
    """The generator knows no `\\p{C}`."""
    return "x" if unicodedata.category(character)[0] in "CZ" and character.isprintable() is False else character


def _is_int(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _relate_usage(query: dict[str, Any]) -> None:
    query.pop("page", None)
    numbers = {name: query.get(name) for name in ("start_time", "end_time", "limit")}
    if str(numbers["start_time"]).isdecimal() and str(numbers["end_time"]).isdecimal():
        query["end_time"] = max(int(query["end_time"]), min(int(query["start_time"]), LATEST - 2) + 1)
    if str(numbers["limit"]).isdecimal():
        query["limit"] = min(int(query["limit"]), 31)

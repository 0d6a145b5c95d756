"""Where the traffic of `specgate demo-traffic` takes place: a tenant, two projects, and what is put back afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gateway.cli.admin import Admin, Object
from gateway.cli.console import stop
from gateway.cli.demo_traffic_cases import EDITOR, SUPPORT

TENANT = "demo"
TENANTS = "/admin/v1/tenants"
PROJECTS = "/v1/organization/projects"
HELD_OUT = 0.2
KEY_SECONDS = 3600
PRICES = {"input": 100_000, "cached": 50_000, "output": 400_000}
FREE = {"input": 0, "output": 0}
BEGUN = "demo traffic: enough controls to measure by"
PRICED = "demo traffic: costs to show"
OVER = "demo traffic is over"
"""Reasons in the history, by which the next run finds what one whose server died could not put back."""


def deployment_of(api: Admin, name: str | None) -> Object:
    """That of this name; None: the first that takes requests."""
    found = [one for one in api.all("/admin/v1/deployments") if one["enabled"] and name in (None, one["name"])]
    return found[0] if found else stop("there is no such deployment that takes requests. `specgate deployments list`.")


def make_tenant(api: Admin) -> None:
    """Its requests with a prediction may be controls too, so that what predictions save is measured."""
    wanted = {"holdout_includes_prediction": True}
    found = api.find(f"{TENANTS}/{TENANT}")
    if found is None:
        api.post(TENANTS, {"id": TENANT, "name": "Demo"} | wanted)
    elif not found["holdout_includes_prediction"]:
        api.patch(f"{TENANTS}/{TENANT}", wanted)


@contextmanager
def keys(api: Admin) -> Iterator[Mapping[str, str]]:
    """Project → an inference key that ends with the block, or within the hour."""
    made: list[str] = []
    found: dict[str, str] = {}
    try:
        for name in (EDITOR, SUPPORT):
            project = api.project(name) or api.post(PROJECTS, {"name": name})
            accounts = f"{PROJECTS}/{project['id']}/service_accounts"
            account = api.post(accounts, {"name": "demo traffic", "expires_in_seconds": KEY_SECONDS})
            made.append(f"{accounts}/{account['id']}")
            found[name] = account["api_key"]["value"]
        yield found
    finally:
        for path in made:
            api.delete(path)


@contextmanager
def held_out(api: Admin, deployment: Object) -> Iterator[float]:
    """One request in five runs without speculation while inside; yields the rate that was there before."""
    path = _path(deployment)
    newest, *earlier = api.get(f"{path}/versions", limit=2)["data"]
    is_left = newest["reason"] == BEGUN
    before = float((earlier[0] if is_left else deployment)["speculation"]["holdout_rate"])
    if before == HELD_OUT:
        yield before
        return
    if not is_left:
        api.patch(path, _rate(HELD_OUT, BEGUN))
    try:
        yield before
    finally:
        api.patch(path, _rate(before, OVER))


@contextmanager
def priced(api: Admin, deployment: Object) -> Iterator[bool]:
    """Where nothing has a price, a small one while inside, so that costs show; whether that is so."""
    path = f"{_path(deployment)}/prices"
    found = api.get(path)
    is_left = [version["reason"] for version in found["history"][:1]] == [PRICED]
    if any(found[item] for item in FREE) and not is_left:
        yield False
        return
    if not is_left:
        api.put(path, PRICES | {"reason": PRICED})
    try:
        yield True
    finally:
        api.put(path, FREE | {"reason": OVER})


def _path(deployment: Object) -> str:
    return f"/admin/v1/deployments/{deployment['id']}"


def _rate(rate: float, reason: str) -> Object:
    return {"speculation": {"holdout_rate": rate}, "reason": reason}

"""What specgate.yaml may say: tenants, their projects and keys, limits, deployments. Strict; unknown members are named.

What the file leaves out is left as it is. Keys are named, never written: `secret_file` is where a new key's secret
goes, once, for its owner alone.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, ValidationError

from gateway.api.limits import LimitsDocument
from gateway.api.prices import PricesDocument
from gateway.deployments.document import DeploymentDocument
from gateway.openai.fields import refusal
from gateway.openai.organization_schema import TENANT_ID, Models, Name, Scopes
from gateway.openai.schema import Wire
from storage.values import RejectedPolicy

Days = Annotated[int, Field(ge=1, le=3650)]


def _once(member: str) -> AfterValidator:
    """What is said twice would be made twice, or undone by each apply."""

    def check(found: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        names = [getattr(one, member) for one in found or ()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise refusal("invalid_value", f"{', '.join(twice)} stands here more than once; put it together.")
        return found

    return AfterValidator(check)


class DeclaredKey(Wire):
    name: Name
    secret_file: Annotated[str, Field(min_length=1)]
    """Written when the key is made; relative to the file that names it."""
    expires_in_days: Days | None = None
    """Counts from when the key is made."""
    scopes: Scopes = ()
    allowed_models: Models | None = None
    limits: LimitsDocument | None = None


class DeclaredProject(Wire):
    name: Name
    limits: LimitsDocument | None = None
    keys: Annotated[tuple[DeclaredKey, ...] | None, _once("name")] = None


class DeclaredTenant(Wire):
    id: Annotated[str, Field(pattern=f"^{TENANT_ID.pattern}$")]
    name: Name | None = None
    rejected_prediction: RejectedPolicy | None = None
    holdout_includes_prediction: bool | None = None
    limits: LimitsDocument | None = None
    projects: Annotated[tuple[DeclaredProject, ...] | None, _once("name")] = None


class DeclaredDeployment(DeploymentDocument):
    prices: PricesDocument | None = None


class Declared(Wire):
    """specgate.yaml"""

    tenants: Annotated[tuple[DeclaredTenant, ...] | None, _once("id")] = None
    deployments: Annotated[tuple[DeclaredDeployment, ...] | None, _once("name")] = None


class DeclarationRefused(Exception):
    """The message says where and why."""


def read(path: Path) -> Declared:
    """Raises DeclarationRefused."""
    try:
        # As JSON, since the models are strict: a list of the file is a tuple of theirs.
        return Declared.model_validate_json(json.dumps(yaml.safe_load(path.read_text()) or {}, default=str))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise DeclarationRefused(f"{path} cannot be read: {error}") from error
    except ValidationError as error:
        problems = [f"{_place(one['loc'])}: {_reason(one)}" for one in error.errors(include_url=False)]
        raise DeclarationRefused(f"{path} cannot be used.\n  " + "\n  ".join(problems)) from error


def schema() -> dict[str, Any]:
    """JSON Schema of the file."""
    told = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "specgate.yaml"}
    return told | Declared.model_json_schema()


def given(document: Wire) -> dict[str, Any]:
    """What the file says, without what it leaves out."""
    return document.model_dump(mode="json", exclude_unset=True)


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc)) or "the file"


def _reason(problem: Any) -> str:
    return str(problem["msg"]).replace("{param}", _place(problem["loc"]))

"""What requests about tenants, projects and keys may say (types strict, unknown members refused by name).

Members that OpenAI has and we do not are accepted while they ask for nothing. Ours: `allowed_models`, `kind`,
`overlap_seconds`.
"""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from gateway.access import Scope, scopes_of
from gateway.openai.fields import Label, Null, refusal
from gateway.openai.schema import Wire
from storage.key_format import FORMAT
from storage.values import RejectedPolicy

TEN_YEARS = int(timedelta(days=3650).total_seconds())
A_DAY = 86_400
TENANT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")
TENANT_ID_SCHEMA = {"type": "string", "pattern": f"^{TENANT_ID.pattern}$"}
CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
CONTROL = re.compile(f"[{CONTROLS}]")
"""Also what ends a line or turns the direction of those that follow."""


def _name(value: str) -> str:
    """Names are shown and logged: a key pasted into one would be too, and terminals obey control characters."""
    if FORMAT.search(value):
        raise refusal("invalid_value", "Invalid value for '{param}': it holds an API key; choose a name for it.")
    if found := CONTROL.search(value):
        told = f"U+{ord(found[0]):04X}"
        raise refusal(
            "invalid_value", f"Invalid value for '{{param}}': it holds the control character {told}; remove it."
        )
    return value


def _tenant_id(value: str) -> str:
    if not TENANT_ID.fullmatch(value):
        allowed = "1 to 48 of a-z, 0-9, '_' and '-', the first a letter or digit"
        raise refusal("invalid_value", f"Invalid value for '{{param}}': use {allowed}.")
    return value


Name = Annotated[
    Label,
    Field(min_length=1, max_length=256, json_schema_extra={"pattern": f"^[^{CONTROLS}]*$"}),
    AfterValidator(_name),
]
Lifetime = Annotated[int, Field(ge=1, le=TEN_YEARS)]
Models = Annotated[
    tuple[Annotated[Label, Field(min_length=1, max_length=256)], ...], Field(min_length=1, max_length=64)
]
Scopes = Annotated[tuple[Scope, ...], Field(max_length=64)]
"""Empty: every scope of the key's kind, as at OpenAI."""
OfInference = Annotated[
    Scopes, WithJsonSchema({"type": "array", "maxItems": 64, "items": {"enum": list(scopes_of("inference"))}})
]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]


class ProjectCreate(Wire):
    name: Name
    external_key_id: Null = None
    geography: Null = None
    residency: Null = None


class ProjectUpdate(Wire):
    name: Name | None = None
    external_key_id: Null = None
    geography: Null = None


class KeyOptions(Wire):
    """What a new key may be given."""

    expires_in_seconds: Lifetime | None = None
    scopes: OfInference = ()
    allowed_models: Models | None = None


class KeyCreate(KeyOptions):
    name: Name | None = None


class ServiceAccountCreate(KeyOptions):
    name: Name
    create_service_account_only: bool | None = None


class ServiceAccountUpdate(Wire):
    name: Name | None = None
    role: Literal["member", "owner"] | None = None


class KeyUpdate(KeyOptions):
    """What is left out stays; `allowed_models: null` allows every model."""

    name: Name | None = None


class KeyRotate(Wire):
    overlap_seconds: Annotated[int, Field(ge=0, le=30 * A_DAY)] = A_DAY
    """How long the old key stays good."""
    expires_in_seconds: Lifetime | None = None
    """None: the new key lives as long as the old one was meant to."""


class AdminKeyCreate(Wire):
    name: Name
    expires_in_seconds: Lifetime | None = None
    scopes: Scopes = ()
    kind: Literal["tenant_admin", "operator"] = "tenant_admin"


class RateLimitUpdate(Wire):
    """What is left out stays; null lifts a limit."""

    max_requests_per_1_minute: Count | None = None
    max_tokens_per_1_minute: Count | None = None
    max_output_tokens_per_1_minute: Count | None = None
    max_concurrent_requests: Count | None = None
    max_tokens_per_1_month: Count | None = None
    max_requests_per_1_day: Null = None
    max_images_per_1_minute: Null = None
    max_audio_megabytes_per_1_minute: Null = None
    batch_1_day_max_input_tokens: Null = None


class TenantCreate(Wire):
    id: Annotated[str, AfterValidator(_tenant_id), WithJsonSchema(TENANT_ID_SCHEMA)] | None = None
    """None: one is drawn."""
    name: Name
    rejected_prediction: RejectedPolicy = "free"
    holdout_includes_prediction: bool = False


class TenantDocument(Wire):
    """What of a tenant a merge patch may change."""

    name: Name
    rejected_prediction: RejectedPolicy
    holdout_includes_prediction: bool = False
    """Whether requests with a prediction may run without it, as controls of the holdout."""

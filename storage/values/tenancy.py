"""Values of tenancy: who is billed, and the keys that ask on their account."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

KeyKind = Literal["inference", "tenant_admin", "operator"]
RejectedPolicy = Literal["free", "billed", "capped"]
Role = Literal["owner", "member", "none"]


def default_project(tenant_id: str) -> str:
    """The id of the project that every tenant has from its first moment."""
    return f"proj_{tenant_id}"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who is billed. `rejected_prediction`: whether rejected prediction tokens join `completion_tokens`."""

    id: str
    name: str
    rejected_prediction: RejectedPolicy
    created_at: datetime
    suspended_at: datetime | None = None
    holdout_includes_prediction: bool = False
    """Whether its requests with a `prediction` may become controls of the holdout."""
    erased_at: datetime | None = None
    """Its names and keys are gone, for good; what its requests used is still counted."""
    version: int = 1


@dataclass(frozen=True, slots=True)
class Project:
    """A part of a tenant with keys, limits and a line in the report of its own. Archived: its keys have ended."""

    id: str
    tenant_id: str
    name: str
    is_default: bool
    created_at: datetime
    archived_at: datetime | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A program that keys of a project are made for."""

    id: str
    project_id: str
    name: str
    role: Role
    created_at: datetime
    deleted_at: datetime | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the database knows it: no secret."""

    public_id: str
    tenant_id: str
    kind: KeyKind
    name: str
    created_at: datetime
    revoked_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    """To the minute."""
    project_id: str | None = None
    service_account_id: str | None = None
    scopes: Sequence[str] | None = None
    """None: every scope of its kind."""
    allowed_models: Sequence[str] | None = None
    """None: every model there is."""
    rotated_from: str | None = None
    """The public id of the key that this one replaces."""
    overlap_until: datetime | None = None
    """Replaced by another key; good until then."""
    version: int = 1

    @property
    def ends_at(self) -> datetime | None:
        """When it stops working of itself; None: never."""
        return min((end for end in (self.expires_at, self.overlap_until) if end is not None), default=None)

    def is_active(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.ends_at is None or now < self.ends_at)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key at its birth, the only moment its secret is known."""

    public_id: str
    secret: str = field(repr=False)

    @property
    def key(self) -> str:
        """The whole key, as a client sends it."""
        return f"sk-sg-{self.public_id}-{self.secret}"

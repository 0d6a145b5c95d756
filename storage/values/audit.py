"""Values of the audit log: who did what to what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

GENESIS = "0" * 64
ActorKind = Literal["api_key", "system"]
Document = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends. Kept elsewhere too, it also tells a log that was set back as a whole."""

    seq: int = 0
    mac: str = GENESIS


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """A rule of the log that does not hold, and where."""

    rule: str
    seq: int


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: a key by its public id, or the system (`first-start`, `reset-admin`, …)."""

    kind: ActorKind
    id: str
    request_id: str | None = None
    source: str | None = None
    """The address it came from."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One change, as it was written."""

    seq: int
    id: str
    at: datetime
    action: str
    target: str
    tenant_id: str | None
    project_id: str | None
    actor: Actor
    before: Document | None
    after: Document | None
    is_erased: bool
    mac: str


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which events. `tenant_id` None: every tenant's, and the installation's own."""

    tenant_id: str | None = None
    actions: Sequence[str] = ()
    actor_ids: Sequence[str] = ()
    project_ids: Sequence[str] = ()
    targets: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What `verify` found."""

    events: int
    erased: int
    head: Head
    problems: Sequence[AuditProblem] = ()

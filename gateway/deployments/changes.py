"""What a change of a deployment comes to: the document it leads to, what differs, and the memory it needs. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, JsonValue

from gateway.api.merge_patch import Document, Patch, differences, merge
from gateway.deployments.document import LOADED, DeploymentDocument
from gateway.deployments.memory import UNKNOWN, Memory
from gateway.errors import Conflict, InvalidRequest
from gateway.openai.fields import Label
from gateway.openai.parse import parse
from gateway.openai.schema import Wire
from storage.values.deployments import Deployment

Reason = Annotated[Label, Field(min_length=1, max_length=1024)]
REASON_HEADER = "x-specgate-reason"


class NewDeployment(DeploymentDocument):
    reason: Reason | None = None

    @property
    def document(self) -> DeploymentDocument:
        return DeploymentDocument.model_construct(
            **{name: getattr(self, name) for name in DeploymentDocument.model_fields}
        )


class Why(Wire):
    reason: Reason


class Rollback(Wire):
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    reason: Reason


def patch_and_reason(raw: bytes) -> tuple[Document, str | None]:
    """The reason may be a member of the patch. Raises InvalidRequest."""
    patch = dict(parse(raw, Patch).root)
    told = patch.pop("reason", None)
    return patch, None if told is None else checked(told)


def reason_in(headers: Mapping[str, str]) -> str | None:
    """Raises InvalidRequest."""
    told = headers.get(REASON_HEADER)
    return checked(told) if told else None


def require_reason(reason: str | None) -> str:
    if reason is None:
        told = f"Missing required parameter: 'reason'. Say why, in the body or in the header {REASON_HEADER}."
        raise InvalidRequest(told, "reason", "missing_required_parameter")
    return reason


def changed(current: Document, patch: Document) -> DeploymentDocument:
    """Raises InvalidRequest naming the member at fault."""
    wanted = parse(json.dumps(merge(current, patch)).encode(), DeploymentDocument)
    if wanted.name != current["name"]:
        raise InvalidRequest("A deployment's name is never changed; make another, and alias it.", "name")
    return wanted


def require_free_names(wanted: DeploymentDocument, others: list[Deployment]) -> None:
    """A name means one deployment, an alias is no deployment's name, an engine_url serves one. Raises Conflict."""
    names = {other.spec.name for other in others}
    aliases = {alias.name for other in others for alias in other.spec.aliases}
    if wanted.name in names | aliases:
        raise Conflict(f"The name {wanted.name} is taken; choose another.", "name_taken", "name")
    for index, alias in enumerate(wanted.aliases):
        if alias.name in names:
            told = f"There is a deployment named {alias.name}; choose another alias."
            raise Conflict(told, "name_taken", f"aliases[{index}].name")
    if wanted.engine_url is not None and wanted.engine_url in {other.spec.engine_url for other in others}:
        told = "Another deployment has this engine; an engine runs the drafters of one."
        raise Conflict(told, param="engine_url")


@dataclass(frozen=True, slots=True)
class Plan:
    """A change before it is made."""

    before: Document | None
    """None: a new deployment."""
    wanted: DeploymentDocument
    memory: Memory = UNKNOWN

    @property
    def differences(self) -> list[dict[str, JsonValue]]:
        return list(differences(self.before or {}, self.wanted.model_dump(mode="json")))

    @property
    def needs_load(self) -> bool:
        """Whether engines are loaded anew, beside those that run."""
        before, after = self.before or {}, self.wanted.model_dump(mode="json")
        return self.wanted.enabled and any(before.get(one) != after[one] for one in (*LOADED, "enabled"))

    @property
    def changes_drafters(self) -> bool:
        return bool((self.before or {}).get("speculation") != self.wanted.speculation.model_dump(mode="json"))

    def told(self) -> dict[str, Any]:
        return {
            "object": "deployment.plan",
            "changes": self.differences,
            "needs_load": self.needs_load,
            "changes_drafters": self.changes_drafters,
            "memory": self.memory.told(self.wanted.replicas if self.wanted.enabled else 0, self._loaded_first()),
        }

    def _loaded_first(self) -> int:
        """Replicas that are there before any is let go."""
        had = (self.before or {}).get("replicas")
        more = self.wanted.replicas - (had if isinstance(had, int) else 0)
        return self.wanted.replicas if self.needs_load else max(0, more) if self.wanted.enabled else 0


def checked(told: JsonValue) -> str:
    return parse(json.dumps({"reason": told}).encode(), Why).reason
